"""The one schema that every engine is normalised into, every trace is stored as, and every reader gets.

`None` means «not told»; an empty tuple means «told: none».
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import Any, Final, Literal

from adapters.token_ids import TokenIds

SCHEMA_VERSION: Final = 1

Capture = Literal["exact", "ids", "stream"]
Dialect = Literal["chat", "completions", "messages", "responses"]
EndedStatus = Literal["finished", "failed", "aborted"]
Fidelity = Literal["exact", "partial", "retokenized", "none"]
LogprobsFidelity = Literal["exact", "none"]
LogprobsMode = Literal["raw", "processed"]
PlanMode = Literal["streamed", "buffered", "whole"]
Purpose = Literal["train", "eval", "aux"]
SessionStatus = Literal["open", "finished", "failed", "aborted"]
Status = Literal["running", "ok", "client_disconnected", "backend_error", "interrupted", "rejected"]


@dataclass(frozen=True, slots=True)
class Error:
    """What went wrong, in the words of whoever refused: the backend, or the gateway itself."""

    message: str
    type: str | None = None
    code: str | int | None = None
    param: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str | None
    name: str | None
    arguments: str | None
    """The JSON text as the engine gave it, never parsed and printed again."""


@dataclass(frozen=True, slots=True)
class WeightSpan:
    """The policy weights that sampled `token_ids[start:end]` of a choice."""

    version: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RoutedExperts:
    """Which experts each token went to: raw bytes in C order with their shape and numpy dtype string."""

    data: bytes
    shape: tuple[int, ...] | None
    dtype: str | None


@dataclass(frozen=True, slots=True)
class Choice:
    """One sampled completion, token for token. `logprobs` is 1:1 with `token_ids` or null."""

    index: int
    token_ids: TokenIds | None = None
    logprobs: tuple[float | None, ...] | None = None
    text: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    prompt_token_ids: TokenIds | None = None
    """Only where one call has several prompts; else they stand on the trace."""
    weight_versions: tuple[WeightSpan, ...] | None = None
    routed_experts: RoutedExperts | None = None

    def __post_init__(self) -> None:
        if self.index < 0:
            raise ValueError(f"choice index {self.index} is negative")
        if self.logprobs is not None and len(self.logprobs) != len(self.token_ids or ()):
            raise ValueError(f"{len(self.logprobs)} logprobs for {len(self.token_ids or ())} token ids")


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a backend. A call that needed one try has one."""

    backend: str
    started_at: datetime
    status: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """What the agent sent: the raw body, and those of its headers that an allow-list names."""

    body: bytes | None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters as the agent asked for them, and as the backend got them."""

    requested: Mapping[str, Any] = field(default_factory=dict)
    effective: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How sure the ids and logprobs of a call are, and why not surer. Earned, never assumed."""

    fidelity: Fidelity
    fidelity_reason: str | None
    logprobs_fidelity: LogprobsFidelity
    logprobs_reason: str | None


@dataclass(frozen=True, slots=True)
class Completion:
    """One engine's whole answer in the one schema, however it came: streamed, buffered or whole."""

    choices: tuple[Choice, ...] = ()
    prompt_token_ids: TokenIds | None = None
    served_model: str | None = None
    usage: Usage | None = None
    usage_estimated: bool = False
    """True where the gateway, not the engine, counted."""
    source: str | None = None
    """Where the completion ids stood, e.g. `choices[].response_token_ids`."""
    logprobs_mode: LogprobsMode | None = None
    weight_version: str | None = None
    """What the engine itself said of the whole answer; spans stand on the choices."""
    error: Error | None = None
    """An error that the engine reported after it had begun to answer."""
    anomalies: tuple[str, ...] = ()
    """What was odd in the bytes (a chunk that did not parse, ids told twice and differing …): never `exact`."""
    logprobs_reason: str | None = None
    """Why logprobs that were asked for are null."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The record of one model call. `turn` is null until the database has given it."""

    trace_id: str
    session_id: str
    dialect: Dialect
    status: Status
    started_at: datetime
    request: RecordedRequest
    turn: int | None = None
    attempt: int = 0
    parent_trace_id: str | None = None
    parent_index: int | None = None
    retry_of: str | None = None
    model: str | None = None
    served_model: str | None = None
    http_status: int | None = None
    error: Error | None = None
    purpose: Purpose = "train"
    backend: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    attempts: tuple[Attempt, ...] = ()
    plan: PlanMode | None = None
    weight_version: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    prompt_token_ids: TokenIds | None = None
    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None
    usage_estimated: bool = False
    fidelity: Fidelity = "none"
    fidelity_reason: str | None = None
    source: str | None = None
    logprobs_fidelity: LogprobsFidelity = "none"
    logprobs_reason: str | None = None
    logprobs_mode: LogprobsMode | None = None
    first_token_ms: float | None = None
    duration_ms: float | None = None
    request_id: str | None = None
    gateway_id: str | None = None
    harness: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Reward:
    """One named component of what a rollout, or one of its traces, was worth to whoever judged it.

    A later one of the same `name` and `trace_id` revises it.
    """

    reward_id: str
    """The judge's own key, so that telling it twice counts once; made up where none is given."""
    name: str
    value: float
    created_at: datetime
    weight: float = 1.0
    """Its part in the sum that is the rollout's reward; 0 for what is only watched."""
    trace_id: str | None = None
    """Null: of the session as a whole."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (isfinite(self.value) and isfinite(self.weight)):
            raise ValueError(f"reward {self.name!r} of {self.value} by {self.weight} is no finite number")


@dataclass(frozen=True, slots=True)
class Session:
    """The model calls of one rollout: one attempt of one agent at one task."""

    session_id: str
    created_at: datetime
    status: SessionStatus = "open"
    run_id: str | None = None
    group_id: str | None = None
    group_size: int | None = None
    """How many sessions its group is to have (GRPO's n); null where nobody said."""
    finished_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    rewards: tuple[Reward, ...] = ()
    """All that were told, in the order of their writing: revised ones too."""
    sampling: Mapping[str, Any] | None = None
    """Sampling parameters pinned for every call of the session."""
    budgets: Mapping[str, Any] | None = None
    capture: Capture | None = None
    """Null: the gateway's own."""
    purpose: Purpose | None = None
    attempt: int = 0
    backend: str | None = None
    """The backend that this session is pinned to since its first call."""
    implicit: bool = False
    """Made for one call that named no session."""
