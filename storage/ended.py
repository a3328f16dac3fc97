"""The sessions that have ended, in the order of their ends: a list that can be read on for ever."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Select, exists, select

from adapters.schema import Session
from storage import claims, cursors
from storage.records import EndedQuery, Page
from storage.sessions import from_row, of_purpose, of_run
from storage.tables import deliveries, sessions

_ended_seq: Final = sessions.c.ended_seq


def page(db: Connection, query: EndedQuery, now: datetime) -> Page[Session]:
    """Raises BadCursor; ClaimNotFound and ClaimExpired where the claim that is asked about holds nothing any more."""
    (after,) = (0,) if query.cursor is None else cursors.unpack(query.cursor, tuple[cursors.Place])
    if query.claim_id is not None:
        claims.check(db, query.claim_id, now)
    rows = db.execute(_select(query, after)).all()
    last = rows[-1].ended_seq if rows else after
    return Page(tuple(map(from_row, rows)), cursors.pack((last,)))


def _select(query: EndedQuery, after: int) -> Select[*tuple[Any, ...]]:
    c = sessions.c
    wanted = select(sessions).where(_ended_seq > after).order_by(_ended_seq).limit(query.limit)
    for column, value in (
        (c.session_id, query.session_id),
        (c.group_id, query.group_id),
    ):
        if value is not None:
            wanted = wanted.where(column == value)
    if query.run_id is not None:
        wanted = wanted.where(of_run(query.run_id))
    if query.purpose is not None:
        wanted = wanted.where(of_purpose(query.purpose))
    if query.since is not None:
        wanted = wanted.where(c.finished_at >= query.since)
    if query.until is not None:
        wanted = wanted.where(c.finished_at < query.until)
    if query.undelivered_to is not None:
        wanted = wanted.where(
            ~exists().where(
                deliveries.c.session_id == c.session_id,
                deliveries.c.consumer == query.undelivered_to,
                deliveries.c.delivered_at.is_not(None),
            )
        )
    if query.claim_id is None:
        return wanted.where(c.status.in_(query.statuses))
    return wanted.where(
        c.session_id.in_(select(deliveries.c.session_id).where(deliveries.c.claim_id == query.claim_id))
    )
