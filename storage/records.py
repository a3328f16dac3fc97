"""The values that storage takes and gives beside traces and sessions: queries, pages, counts, backends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypedDict, TypeVar

from adapters.schema import Capture, Dialect, Fidelity, Purpose, Reward, SessionStatus, Status

Item = TypeVar("Item")

PAGE_LIMIT: Final = 100
"""Items on a page that does not say how many it wants."""


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A part of a list. `next` is the cursor of what follows, null at the end; it means nothing to its holder."""

    items: tuple[Item, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions: a null field does not filter. Ordered by creation, then id."""

    run_id: str | None = None
    group_id: str | None = None
    status: SessionStatus | None = None
    purpose: Purpose | None = None
    implicit: bool | None = None
    since: datetime | None = None
    """Created at or after."""
    until: datetime | None = None
    """Created before."""
    limit: int = PAGE_LIMIT
    cursor: str | None = None

    def __post_init__(self) -> None:
        _check_limit(self.limit)


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """Which traces: a null field does not filter. Of one session ordered by turn, else by trace id (their time)."""

    session_id: str | None = None
    run_id: str | None = None
    group_id: str | None = None
    model: str | None = None
    """As asked or as answered."""
    engine: str | None = None
    backend: str | None = None
    status: Status | None = None
    fidelity: Fidelity | None = None
    weight_version: str | None = None
    purpose: Purpose | None = None
    dialect: Dialect | None = None
    since: datetime | None = None
    """Started at or after."""
    until: datetime | None = None
    """Started before."""
    limit: int = PAGE_LIMIT
    """At most so many; a page also ends after some 32 MiB of decoded traces, with a `next`."""
    cursor: str | None = None

    def __post_init__(self) -> None:
        _check_limit(self.limit)


class SessionChanges(TypedDict, total=False):
    """What of a session may change after its making."""

    status: SessionStatus
    run_id: str | None
    group_id: str | None
    group_size: int | None
    finished_at: datetime | None
    metadata: Mapping[str, Any]
    rewards: tuple[Reward, ...]
    sampling: Mapping[str, Any] | None
    budgets: Mapping[str, Any] | None
    capture: Capture | None
    purpose: Purpose | None
    attempt: int
    backend: str | None


@dataclass(frozen=True, slots=True)
class StoredBackend:
    """A backend as an administrator named it; null is found out by asking.

    Never its credential: `api_key_env` names the variable that has it.
    """

    name: str
    url: str
    engine: str | None = None
    version: str | None = None
    variant: str | None = None
    features: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    tokenizer: str | None = None
    api_key_env: str | None = None


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """The writer's numbers since the store was opened, and how far behind it is."""

    queued: int
    """Jobs not yet committed."""
    queued_bytes: int
    begun: int
    finished: int
    """Calls of `begin` and `finish` that were accepted."""
    committed: int
    """Finished traces that are in the database."""
    refused: int
    """Rows that could not be written at all, each logged."""
    dropped_late: int
    """Rows of deleted sessions."""
    commits: int
    last_commit_ms: float | None
    """How long the last transaction took."""
    oldest_queued_ms: float | None
    writer_alive: bool
    writer_restarts: int
    unable: str | None
    """Why the database can't be written at the moment, in its own words."""


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise ValueError(f"a page of {limit} items is none")
