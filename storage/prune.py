"""Pruning: which sessions are over and old, and their deletion, each by itself, so that no call waits long for it.

A session goes whole: its traces are stored against each other, and half of one would train what nobody sampled so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, delete, func, literal, or_, select, tuple_
from sqlalchemy import exists as sql_exists

from adapters.schema import SessionStatus
from storage import sessions
from storage.offers import is_delivered
from storage.tables import UtcDateTime, claims, deliveries, gateways, tombstones, traces
from storage.tables import sessions as rows

TOMBSTONES_KEPT: Final = timedelta(days=90)
"""Who still writes for a deleted session after that (a spool found in a drawer) makes it anew."""
CLAIMS_KEPT: Final = timedelta(days=30)
"""After its lease, of a claim that has no session any more. Who asks for it then is told that there is none."""
GATEWAYS_KEPT: Final = timedelta(days=1)
SWEPT_AT_ONCE: Final = 500

_c: Final = rows.c


@dataclass(frozen=True, slots=True)
class PruneQuery:
    """Which sessions are to go: a null field does not filter. Never one with a call that runs, or that is claimed."""

    older_than: timedelta | None = None
    """So old is all of it: its making, its end, and each call."""
    run_id: str | None = None
    """Empty: of no run."""
    statuses: tuple[SessionStatus, ...] = ("finished", "failed", "aborted")
    """A call that named no session, which nobody can finish, counts as `finished`."""
    delivered_to: str | None = None
    """A consumer: only what it has acknowledged."""

    def __post_init__(self) -> None:
        if self.older_than is None and self.run_id is None:
            raise ValueError("neither an age nor a run is named: this would delete everything")


@dataclass(frozen=True, slots=True)
class Prunable:
    """A session that may go, and what that gives back."""

    session_id: str
    created_at: datetime
    traces: int
    bytes: int
    delivered: bool
    """Whether any consumer has acknowledged it."""


def stored_bytes() -> ColumnElement[Any]:
    """Of a trace's payload as it is stored; its other columns and the indexes come on top, about a kilobyte."""
    blobs = (traces.c.text, traces.c.ids, traces.c.logprobs, traces.c.experts, traces.c.ends)
    # Both databases know the length of a large value without reading it.
    return sum((func.coalesce(func.length(blob), 0) for blob in blobs), literal(0))


def find(db: Connection, query: PruneQuery, now: datetime, after: Prunable | None, limit: int) -> Sequence[Prunable]:
    """The next of them, those made first coming first."""
    wanted = select(_c.session_id, _c.created_at).where(*_may_go(query, now))
    if after is not None:
        last = tuple_(literal(after.created_at, UtcDateTime), literal(after.session_id))
        wanted = wanted.where(tuple_(_c.created_at, _c.session_id) > last)
    chosen = wanted.order_by(_c.created_at, _c.session_id).limit(limit).subquery()
    given = sql_exists().where(deliveries.c.session_id == chosen.c.session_id, deliveries.c.delivered_at.is_not(None))
    weighed = (
        select(
            chosen.c.session_id,
            chosen.c.created_at,
            func.count(traces.c.trace_id).label("traces"),
            func.coalesce(func.sum(stored_bytes()), 0).label("bytes"),
            given.label("delivered"),
        )
        .select_from(chosen.outerjoin(traces, traces.c.session_id == chosen.c.session_id))
        .group_by(chosen.c.session_id, chosen.c.created_at)
        .order_by(chosen.c.created_at, chosen.c.session_id)
    )
    return [
        Prunable(row.session_id, row.created_at, row.traces, int(row.bytes), bool(row.delivered))
        for row in db.execute(weighed)
    ]


def erase(db: Connection, query: PruneQuery, session_id: str, now: datetime) -> bool:
    """Delete it and leave a tombstone, if it still is one of them."""
    still = select(_c.session_id).where(_c.session_id == session_id, *_may_go(query, now)).with_for_update()
    return db.execute(still).first() is not None and sessions.remove(db, session_id)


def sweep(db: Connection, now: datetime) -> int:
    """Forget some of what deleted sessions have left behind, and gateways that are gone. How many rows it was."""
    of_none = ~sql_exists().where(deliveries.c.claim_id == claims.c.claim_id)
    gone = (gateways.c.heartbeat_at < now - GATEWAYS_KEPT) & (gateways.c.spool_depth == 0)
    old = (
        (tombstones.c.session_id, tombstones.c.deleted_at < now - TOMBSTONES_KEPT),
        (claims.c.claim_id, and_(claims.c.leased_until < now - CLAIMS_KEPT, of_none)),
        (gateways.c.gateway_id, gone),
    )
    swept = 0
    for key, is_old in old:
        some = select(key).where(is_old).limit(SWEPT_AT_ONCE)
        swept += db.execute(delete(key.table).where(key.in_(some.scalar_subquery()))).rowcount
    return swept


def _may_go(query: PruneQuery, now: datetime) -> Sequence[ColumnElement[bool]]:
    before = None if query.older_than is None else now - query.older_than
    over: ColumnElement[bool] = _c.status.in_(query.statuses)
    if "finished" in query.statuses:
        over = or_(over, _c.implicit)
    busy = traces.c.status == "running"
    if before is not None:
        busy = or_(busy, traces.c.started_at >= before)
    held = (
        select(deliveries.c.session_id)
        .join(claims, claims.c.claim_id == deliveries.c.claim_id)
        .where(deliveries.c.session_id == _c.session_id, deliveries.c.delivered_at.is_(None))
        .where(claims.c.status == "held", claims.c.leased_until > now)
        .correlate(rows)
    )
    terms = [over, ~sql_exists().where(traces.c.session_id == _c.session_id, busy), ~held.exists()]
    if before is not None:
        terms += [_c.created_at < before, func.coalesce(_c.finished_at, _c.created_at) < before]
    if query.run_id is not None:
        terms.append(_c.run_id == query.run_id if query.run_id else _c.run_id.is_(None))
    if query.delivered_to is not None:
        terms.append(is_delivered(query.delivered_to))
    return terms
