"""A training sample as a trainer gets it: numpy arrays of one length, and what it has to know of them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gateway.client.reading import array, each, known
from gateway.client.values import LogprobsMode, Purpose, Reward, SessionStatus


@dataclass(frozen=True, slots=True)
class WeightSpan:
    """The policy weights that sampled `token_ids[start:end]`."""

    version: str
    start: int
    end: int

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(cls, told)


@dataclass(frozen=True, slots=True)
class RoutedExperts:
    """Which experts each token of a choice went to, as the engine told it."""

    data: bytes
    """In C order."""
    shape: tuple[int, ...] | None = None
    dtype: str | None = None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        shape = told.get("shape")
        return known(cls, told, data=base64.b64decode(told["data"]), shape=None if shape is None else tuple(shape))

    def array(self) -> npt.NDArray[Any]:
        """Raises ValueError where the engine did not say how to read them."""
        if self.shape is None or self.dtype is None:
            raise ValueError("the engine told neither shape nor type of these routed experts, or only one")
        return np.frombuffer(self.data, self.dtype).reshape(self.shape).copy()


@dataclass(frozen=True, slots=True)
class SampledSpan:
    """Where one choice's own tokens stand: `token_ids[start:end]`."""

    trace_id: str
    index: int
    start: int
    end: int
    trained: bool
    """False where an earlier row of the session trains these very tokens."""
    finish_reason: str | None = None
    temperature: float | None = None
    logprobs_mode: LogprobsMode | None = None
    """`raw` is before temperature and penalties, `processed` after."""
    routed_experts: RoutedExperts | None = None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        experts = told.get("routed_experts")
        return known(cls, told, routed_experts=None if experts is None else RoutedExperts.of(experts))


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a trainer should know of a sample."""

    code: str
    fatal: bool
    """Not served unless asked for."""
    detail: str
    trace_ids: tuple[str, ...] = ()

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(cls, told, trace_ids=tuple(told.get("trace_ids", ())))


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One training sequence. `token_ids`, `mask` and `logprobs` have one length."""

    session_id: str
    branch: int
    """0, 1, 2 … among the session's rows."""
    token_ids: npt.NDArray[np.int32]
    mask: npt.NDArray[np.int8]
    """1 where the token was sampled by the policy and is to be trained."""
    logprobs: npt.NDArray[np.float32]
    """0.0 where the mask is 0; NaN where a sampled token's was not told."""
    first_prompt_len: int
    """How many ids come before the first sampled one."""
    reward: float | None = None
    """The session's; null where none was told."""
    rewards: tuple[Reward, ...] = ()
    """The components that count now: the session's own, and those of this row's traces."""
    weight: float = 1.0
    """1 / rows of the session."""
    run_id: str | None = None
    group_id: str | None = None
    attempt: int = 0
    purpose: Purpose | None = None
    status: SessionStatus = "finished"
    trace_ids: tuple[str, ...] = ()
    """From root to leaf."""
    spans: tuple[SampledSpan, ...] = ()
    weight_versions: tuple[WeightSpan, ...] = ()
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

    def __len__(self) -> int:
        return len(self.token_ids)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(
            cls,
            told,
            token_ids=array(told["token_ids"], np.int32),
            mask=array(told["mask"], np.int8),
            logprobs=array(told["logprobs"], np.float32),
            rewards=each(Reward.of, told.get("rewards")),
            trace_ids=tuple(told.get("trace_ids", ())),
            spans=each(SampledSpan.of, told.get("spans")),
            weight_versions=each(WeightSpan.of, told.get("weight_versions")),
            findings=each(Finding.of, told.get("findings")),
        )
