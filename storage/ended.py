"""The sessions that have ended, in the order of their ends: a list that can be read on for ever."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Select, select

from adapters.schema import Session
from storage import claims, cursors
from storage.database import Clock
from storage.offers import is_delivered
from storage.records import EndedQuery, Page
from storage.sessions import from_row, labelled
from storage.tables import deliveries, sessions

_ended_seq: Final = sessions.c.ended_seq


def page(db: Connection, query: EndedQuery, clock: Clock) -> Page[Session]:
    """Raises BadCursor; ClaimNotFound and ClaimExpired where the claim that is asked about holds nothing any more."""
    (after,) = (0,) if query.cursor is None else cursors.unpack(query.cursor, tuple[cursors.Place])
    if query.claim_id is not None:
        claims.check(db, query.claim_id, clock)
    rows = db.execute(_select(query, after)).all()
    last = rows[-1].ended_seq if rows else after
    return Page(tuple(map(from_row, rows)), cursors.pack((last,)))


def _select(query: EndedQuery, after: int) -> Select[*tuple[Any, ...]]:
    c = sessions.c
    wanted = select(sessions).where(_ended_seq > after).order_by(_ended_seq).limit(query.limit)
    wanted = labelled(wanted, query.run_id, query.group_id, query.purpose)
    if query.session_id is not None:
        wanted = wanted.where(c.session_id == query.session_id)
    if query.since is not None:
        wanted = wanted.where(c.finished_at >= query.since)
    if query.until is not None:
        wanted = wanted.where(c.finished_at < query.until)
    if query.undelivered_to is not None:
        wanted = wanted.where(~is_delivered(query.undelivered_to))
    if query.claim_id is None:
        return wanted.where(c.status.in_(query.statuses))
    return wanted.where(
        c.session_id.in_(select(deliveries.c.session_id).where(deliveries.c.claim_id == query.claim_id))
    )
