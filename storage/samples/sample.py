"""A sample: one training sequence, flat, from which every trainer's own record follows without loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from adapters.schema import LogprobsMode, Purpose, Reward, RoutedExperts, SessionStatus, WeightSpan
from adapters.token_ids import TokenIds


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a trainer should know of a sample, by a code that never changes its meaning."""

    code: str
    fatal: bool
    """Not served unless asked for."""
    detail: str
    """A sentence for a person."""
    trace_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SampledSpan:
    """Where one choice's own tokens stand: `token_ids[start:end]` of its sample."""

    trace_id: str
    index: int
    start: int
    end: int
    trained: bool
    """False where an earlier row has these very tokens with mask 1."""
    finish_reason: str | None = None
    temperature: float | None = None
    """As the backend got it; null where nobody said."""
    logprobs_mode: LogprobsMode | None = None
    routed_experts: RoutedExperts | None = None
    """The engine's own array for this choice, as told."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One path through a session's traces, token for token. `token_ids`, `mask` and `logprobs` are of one length."""

    session_id: str
    branch: int
    """0, 1, 2 … among the session's rows."""
    token_ids: TokenIds
    mask: npt.NDArray[np.int8]
    """1 where the token was sampled by the policy and is to be trained."""
    logprobs: npt.NDArray[np.float32]
    """0.0 where the mask is 0. NaN (null in JSON and Parquet) where a sampled token's was not told: a fatal finding."""
    first_prompt_len: int
    """How many ids come before the first sampled one."""
    spans: tuple[SampledSpan, ...]
    """The sampled ones in their order, also those that another row trains."""
    weight_versions: tuple[WeightSpan, ...] = ()
    """Over `token_ids` of this sample; sampled tokens that no span covers have a version that nobody told."""
    weight: float = 1.0
    """1 / rows of the session."""
    reward: float | None = None
    """The session's: its components by their weights; null where none was told."""
    rewards: tuple[Reward, ...] = ()
    """The components that count now: the session's own, and those of this row's traces."""
    run_id: str | None = None
    group_id: str | None = None
    attempt: int = 0
    purpose: Purpose | None = None
    status: SessionStatus = "open"
    trace_ids: tuple[str, ...] = ()
    """From root to leaf, each once."""
    agent_id: str | None = None
    """Which of the rollout's agents made its last call, by the harness's own id; null where nobody said."""
    parent_agent_id: str | None = None
    """Who spawned that one; null for the main agent."""
    model: str | None = None
    truncated: bool = False
    """The last sampled span was cut by a length limit."""
    findings: tuple[Finding, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The session's."""

    def __post_init__(self) -> None:
        if not len(self.token_ids) == len(self.mask) == len(self.logprobs):
            raise ValueError(f"{len(self.token_ids)} ids, {len(self.mask)} of mask, {len(self.logprobs)} logprobs")
