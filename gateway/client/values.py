"""What the gateway tells of sessions, groups, claims and backends, as frozen values.

`None` means «not told»; an empty tuple means «told: none». The names are those of the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, Self, TypeVar

from gateway.client.reading import each, instant, known

Item = TypeVar("Item")

Capture = Literal["exact", "ids", "stream"]
Dialect = Literal["chat", "completions", "messages", "responses"]
Ending = Literal["finished", "failed", "aborted"]
Fidelity = Literal["exact", "partial", "retokenized", "none"]
LogprobsFidelity = Literal["exact", "none"]
LogprobsMode = Literal["raw", "processed"]
PlanMode = Literal["streamed", "buffered", "whole"]
Purpose = Literal["train", "eval", "aux"]
SessionStatus = Literal["open", "finished", "failed", "aborted"]
Status = Literal["running", "ok", "client_disconnected", "backend_error", "interrupted", "rejected"]
Unit = Literal["session", "group"]


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A part of a list. `next` goes into `cursor` for what follows."""

    items: tuple[Item, ...]
    next: str | None
    complete: bool
    """False while a gateway has calls that were answered and can't be read yet."""


@dataclass(frozen=True, slots=True)
class Reward:
    """One named component of what a session, or one of its traces, was worth."""

    reward_id: str
    name: str
    value: float
    created_at: datetime | None = None
    weight: float = 1.0
    """Its part in the session's reward; 0 for what is only watched."""
    trace_id: str | None = None
    """Null: of the session as a whole."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(cls, told, created_at=instant(told.get("created_at")))


@dataclass(frozen=True, slots=True)
class Session:
    """The model calls of one rollout: one attempt of one agent at one task."""

    session_id: str
    status: SessionStatus
    created_at: datetime
    finished_at: datetime | None = None
    run_id: str | None = None
    group_id: str | None = None
    group_size: int | None = None
    """How many sessions its group is to have."""
    attempt: int = 0
    purpose: Purpose | None = None
    capture: Capture | None = None
    backend: str | None = None
    """Where its calls go since its first one."""
    implicit: bool = False
    """Made for one call that named no session."""
    rewards: tuple[Reward, ...] = ()
    """All that were told, in order: revised ones too."""
    sampling: Mapping[str, Any] | None = None
    """Pinned for each of its calls."""
    budgets: Mapping[str, float | None] | None = None
    """What it may use up."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(
            cls,
            told,
            created_at=datetime.fromisoformat(told["created_at"]),
            finished_at=instant(told.get("finished_at")),
            rewards=each(Reward.of, told.get("rewards")),
        )


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session just made, and what its agent needs."""

    session: Session
    base_url: str
    key: str = field(repr=False)
    """Good for this session's calls alone. It is told here and never again."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return cls(Session.of(told), told["base_url"], told["key"])


@dataclass(frozen=True, slots=True)
class Group:
    """The sessions of one prompt in one run, counted by their status."""

    run_id: str | None
    group_id: str
    size: int | None
    """How many it is to have; null where nobody said."""
    sessions: int
    open: int
    finished: int
    failed: int
    aborted: int
    complete: bool

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(cls, told)


@dataclass(frozen=True, slots=True)
class Claim:
    """Finished sessions, or complete groups, that are one consumer's until its lease runs out."""

    claim_id: str
    consumer: str
    unit: Unit
    status: Literal["held", "acknowledged", "released", "expired"]
    expires_at: datetime
    session_ids: tuple[str, ...]
    """In the order in which they ended."""
    group_ids: tuple[str, ...]
    """By unit `group`; else none."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(
            cls,
            told,
            expires_at=datetime.fromisoformat(told["expires_at"]),
            session_ids=tuple(told["session_ids"]),
            group_ids=tuple(told["group_ids"]),
        )


def _instant(told: str | None) -> datetime | None:
    return None if told is None else datetime.fromisoformat(told)


@dataclass(frozen=True, slots=True)
class Backend:
    """One inference server behind the gateway."""

    name: str
    url: str
    engine: str | None = None
    version: str | None = None
    variant: str | None = None
    features: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    known: Literal["configured", "detected", "probed", "assumed"] | None = None
    """How the engine is known; null before the backend was asked."""
    weight_version: str | None = None
    tokenizer: str | None = None
    api_key_env: str | None = None
    """The gateway's environment variable that has its key."""
    source: Literal["config", "api"] | None = None
    """`config`, or `api` where it was added over HTTP."""
    state: Literal["serving", "draining", "removed"] = "serving"
    weight: float = 1.0
    aliases: Mapping[str, str] = field(default_factory=dict)
    health: Literal["up", "half_open", "down", "unknown"] = "unknown"
    slow: bool = False
    in_flight: int = 0
    calls: int = 0
    failures: int = 0
    """In a row."""
    last_error: str | None = None
    last_error_at: datetime | None = None
    last_success_at: datetime | None = None
    open_sessions: int | None = None
    """While it drains: how many sessions have it and have not ended."""
    drained: bool = False
    """It drains, and nobody is there any more."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(
            cls,
            told,
            features=tuple(told.get("features", ())),
            models=tuple(told.get("models", ())),
            last_error_at=_instant(told.get("last_error_at")),
            last_success_at=_instant(told.get("last_success_at")),
        )
