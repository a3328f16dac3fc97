"""The values that storage takes and gives beside traces and sessions: queries, pages, counts, backends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, Literal, TypedDict, TypeVar

from adapters.schema import Capture, Dialect, Fidelity, Purpose, Reward, SessionStatus, Status

Item = TypeVar("Item")
Unit = Literal["session", "group"]
ClaimStatus = Literal["held", "acknowledged", "released", "expired"]

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
    """Empty: of no run."""
    group_id: str | None = None
    status: SessionStatus | None = None
    purpose: Purpose | None = None
    """`train` finds also the sessions that say none, for so are their calls."""
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
    """Empty: of no run."""
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
    """At most so many."""
    page_bytes: int = 32 * 1024 * 1024
    """A page ends with the trace that brings its payloads to so many bytes, too."""
    cursor: str | None = None
    end: str | None = None
    """A cursor, behind which nothing is wanted any more."""
    payloads: bool = True
    """False: only what has a column is wanted of each; all else of it is empty."""

    def __post_init__(self) -> None:
        _check_limit(self.limit)


@dataclass(frozen=True, slots=True)
class EndedQuery:
    """Which of the sessions that have ended: a null field does not filter. Ordered by their first end, exactly.

    The list is a tail: its pages always have a `next`, and who goes on from there misses none that ends later. A page
    of fewer items than `limit` is the last for now; one of none gives the cursor that it was asked with. A session
    that ends again keeps its place, with its new status.
    """

    session_id: str | None = None
    run_id: str | None = None
    """Empty: of no run."""
    group_id: str | None = None
    statuses: tuple[SessionStatus, ...] = ("finished",)
    """Not looked at with `claim_id`: a claim has the statuses that it asked for."""
    purpose: Purpose | None = None
    """As in `SessionQuery`."""
    since: datetime | None = None
    """Ended at or after."""
    until: datetime | None = None
    """Ended before."""
    undelivered_to: str | None = None
    """A consumer: without those sessions that it has acknowledged."""
    claim_id: str | None = None
    limit: int = PAGE_LIMIT
    cursor: str | None = None

    def __post_init__(self) -> None:
        _check_limit(self.limit)


@dataclass(frozen=True, slots=True)
class Group:
    """How far the sessions of one group are."""

    run_id: str | None
    group_id: str
    size: int | None
    """How many sessions it is to have: the most that one of them declares, else what was asked for, else null."""
    sessions: int
    open: int
    finished: int
    failed: int
    aborted: int
    complete: bool
    """Whether `size` of its sessions have ended, whichever way. Never true where nobody said how many."""


@dataclass(frozen=True, slots=True)
class GroupQuery:
    """Which groups: a null field does not filter.

    Ordered by when one of a group's sessions last ended, those of which none has ended before all others. A tail, as
    `EndedQuery` is: a group comes again when one more of its sessions has ended.
    """

    run_id: str | None = None
    """Empty: of no run."""
    group_id: str | None = None
    complete: bool | None = None
    group_size: int | None = None
    """The size of groups that declare none."""
    limit: int = PAGE_LIMIT
    cursor: str | None = None

    def __post_init__(self) -> None:
        _check_limit(self.limit)


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What a consumer wants to be the only one to work on.

    By `unit` "session": sessions that have ended. By "group": complete groups (as `Group.complete` says), each with all
    its sessions of these statuses, and only while none of them was given to this consumer before; a session that ends
    after its group was claimed is not offered by group any more.
    """

    consumer: str = "default"
    """Whoever shares this name shares the work; consumers of other names get everything too."""
    run_id: str | None = None
    """Empty: of no run."""
    group_id: str | None = None
    unit: Unit = "session"
    limit: int = 1
    """At most so many units, those first that ended first."""
    lease_s: float = 600.0
    group_size: int | None = None
    """The size of groups that declare none."""
    statuses: tuple[SessionStatus, ...] = ("finished",)
    purpose: Purpose | None = "train"
    """As in `SessionQuery`: `train` takes also the sessions that say none, and leaves out what evaluates."""

    def __post_init__(self) -> None:
        _check_limit(self.limit)
        if not self.lease_s > 0:
            raise ValueError(f"a lease of {self.lease_s} seconds is none")


@dataclass(frozen=True, slots=True)
class Claim:
    """Sessions that a consumer has for itself until `expires_at`, or for good once it has acknowledged them."""

    claim_id: str
    consumer: str
    unit: Unit
    status: ClaimStatus
    expires_at: datetime
    session_ids: tuple[str, ...]
    """In the order in which they ended; without those that were deleted, or that another claim has by now."""
    group_ids: tuple[str, ...] = ()
    """Those claimed, by unit "group"; else none."""


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
class GatewayHeard:
    """A gateway as its last heartbeat told of it."""

    gateway_id: str
    heartbeat_at: datetime
    spool_depth: int
    """Traces that it has recorded and not yet brought into the database."""
    spool_oldest_s: float | None = None
    """For how long the oldest of them had waited then; null where there is none."""


BackendSource = Literal["config", "api"]
BackendState = Literal["serving", "draining", "removed"]
"""Draining: no session begins there, and those that are there go on. Removed: nothing goes there."""


@dataclass(frozen=True, slots=True)
class StoredBackend:
    """A backend as an administrator named it; null is found out by asking.

    Of one that the configuration names, `state` and `weight` alone count: what administrators did with it since.
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
    weight: float | None = None
    """Null: 1, or as the configuration has it."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Names that are asked for, and what each is called there."""
    source: BackendSource = "api"
    state: BackendState = "serving"
    control_urls: tuple[str, ...] = ()
    """Where its engines are paused and go on, if that is not at `url`."""


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
    """Finished traces that are in the database, those that came through the spool among them."""
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
    spool_depth: int
    """Finished traces that are safe in the spool and not yet in the database."""
    spool_bytes: int
    spool_oldest_s: float | None
    """For how long the oldest of them has waited."""
    spool_refused: int
    """What no database took and was put aside, each logged."""
    spool_unable: str | None
    """Why the spool can't be written at the moment, in the system's words."""


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise ValueError(f"a page of {limit} items is none")
