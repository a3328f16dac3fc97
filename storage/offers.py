"""What a consumer can claim: sessions that have ended, or complete groups, which it neither has nor had.

Of a long run nearly everything has been delivered, and to look through that for each claim would cost the more the
longer it runs. So it is remembered up to which place all is settled for a kind of request: below it nothing is offered
any more, unless a session that has ended moves (`places`), and then the next look begins at the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from typing import Final, TypeAlias, TypeVarTuple

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select

from storage import groups, places
from storage.database import Clock
from storage.records import ClaimRequest
from storage.sessions import labelled
from storage.tables import claims, deliveries, sessions

Columns = TypeVarTuple("Columns")
Units: TypeAlias = Sequence[tuple[str, ...]]
"""The ids of sessions that are given together: one each, or those of a group."""

MOST_SESSIONS: Final = 5_000
"""A claim has no more, but for a first group that is larger."""
_MOST_KINDS: Final = 1_000

_c: Final = sessions.c
_mate: Final = sessions.alias("mate")


@dataclass(frozen=True, slots=True)
class _Settled:
    """All that has a place below this one, as long as no more sessions have moved than these."""

    below: int
    moved: int


class Offers:
    """Finds what can be claimed. For any thread: what one forgets of what another found is found again."""

    def __init__(self, most_sessions: int = MOST_SESSIONS) -> None:
        self._most_sessions: Final = most_sessions
        self._settled: Final[dict[ClaimRequest, _Settled]] = {}

    def find(self, db: Connection, request: ClaimRequest, clock: Clock) -> Units:
        """What could be claimed at this moment, what ended first coming first."""
        since = self._first_unsettled(db, request)
        if since is None:
            return ()
        now = clock(db)
        if request.unit == "group":
            return _not_more_than(self._most_sessions, _free_groups(db, request, since, now))
        return _free(db, request, since, now, min(request.limit, self._most_sessions))

    def _first_unsettled(self, db: Connection, request: ClaimRequest) -> int | None:
        last, moved = places.counted(db)  # Before the look, so that what it misses is looked for by the next.
        kind = replace(request, limit=1, lease_s=1.0, group_size=None)
        known = self._settled.get(kind)
        below = known.below if known is not None and known.moved == moved else 0
        unsettled = _unsettled(request).where(_c.ended_seq >= below)
        first = db.scalar(unsettled.order_by(_c.ended_seq).limit(1))
        if len(self._settled) >= _MOST_KINDS:
            self._settled.clear()
        self._settled[kind] = _Settled(last + 1 if first is None else first, moved)
        return first


def is_delivered(consumer: str) -> ColumnElement[bool]:
    """Whether the consumer has acknowledged the session."""
    own = _delivered_to(consumer).where(deliveries.c.session_id == _c.session_id)
    return own.correlate(sessions).exists()


def still_free(request: ClaimRequest, session_ids: Sequence[str], now: datetime) -> Select[str]:
    """Those of the sessions that are as wanted and not taken."""
    return select(_c.session_id).where(
        _c.session_id.in_(session_ids), _c.status.in_(request.statuses), ~_is_taken(request.consumer, now)
    )


def _free(db: Connection, request: ClaimRequest, since: int, now: datetime, limit: int) -> Units:
    free = (
        _about(select(_c.session_id), request)
        .where(_c.ended_seq >= since, _c.status.in_(request.statuses), ~_is_taken(request.consumer, now))
        .order_by(_c.ended_seq)
        .limit(limit)
    )
    return [(session_id,) for session_id in db.scalars(free)]


def _free_groups(db: Connection, request: ClaimRequest, since: int, now: datetime) -> Units:
    """Complete groups none of whose sessions this consumer has or had."""
    is_wanted = _c.status.in_(request.statuses)
    unsettled = _about(select(_c.group_id), request).where(_c.ended_seq >= since)
    free = (
        _about(select(_c.run_id, _c.group_id), request)
        .where(_c.group_id.in_(unsettled))
        .group_by(_c.run_id, _c.group_id)
        .having(groups.is_complete(request.group_size))
        .having(groups.count(is_wanted) > 0)
        .having(groups.count(_is_taken(request.consumer, now)) == 0)
        .order_by(func.max(_c.ended_seq))
        .limit(request.limit)
    )
    members: dict[tuple[str | None, str], list[str]] = {(row.run_id, row.group_id): [] for row in db.execute(free)}
    ids = {group_id for _, group_id in members}
    of_these = _about(select(_c.session_id, _c.run_id, _c.group_id), request).where(is_wanted, _c.group_id.in_(ids))
    for row in db.execute(of_these.order_by(_c.ended_seq)):
        # Another run may have a group of this name.
        members.get((row.run_id, row.group_id), []).append(row.session_id)
    return [tuple(unit) for unit in members.values()]


def _not_more_than(most_sessions: int, units: Units) -> Units:
    sizes = accumulate(map(len, units))
    return [
        unit for place, (unit, size) in enumerate(zip(units, sizes, strict=True)) if not place or size <= most_sessions
    ]


def _about(columns: Select[*Columns], request: ClaimRequest) -> Select[*Columns]:
    """Of the sessions that the request is about, however they stand."""
    return labelled(columns, request.run_id, request.group_id, request.purpose)


def _unsettled(request: ClaimRequest) -> Select[int]:
    """The places of those that the request may be given yet, now or when a lease ends or a group is complete."""
    unsettled = _about(select(_c.ended_seq), request).where(
        _c.status.in_(request.statuses), ~is_delivered(request.consumer)
    )
    if request.unit == "session":
        return unsettled
    mates = (
        _delivered_to(request.consumer)
        .join(_mate, _mate.c.session_id == deliveries.c.session_id)
        .where(_mate.c.group_id == _c.group_id, _mate.c.run_id.is_not_distinct_from(_c.run_id))
        .correlate(sessions)
    )
    return unsettled.where(_c.group_id.is_not(None), ~mates.exists())


def _delivered_to(consumer: str) -> Select[str]:
    return select(deliveries.c.session_id).where(
        deliveries.c.consumer == consumer, deliveries.c.delivered_at.is_not(None)
    )


def _is_taken(consumer: str, now: datetime) -> ColumnElement[bool]:
    """Whether the consumer has the session, or had it for good."""
    return (
        select(deliveries.c.session_id)
        .join(claims, claims.c.claim_id == deliveries.c.claim_id)
        .where(
            deliveries.c.session_id == _c.session_id,
            deliveries.c.consumer == consumer,
            or_(deliveries.c.delivered_at.is_not(None), claims.c.leased_until > now),
        )
        .correlate(sessions)
        .exists()
    )
