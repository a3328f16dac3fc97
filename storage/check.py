"""Whether all that was recorded can be read back: every trace against its bases and its digest, a session at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select

from storage import queries
from storage.database import Database
from storage.errors import CorruptTrace
from storage.payloads import Payloads
from storage.tables import traces

_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found in one session."""

    traces: int
    corrupt: Sequence[CorruptTrace]


def check(database: Database) -> Iterator[Checked]:
    """Each session that has traces, in a transaction of its own. Raises Unavailable."""
    last: str | None = None
    while True:
        with database.read() as db:
            session_ids = _next(db, last)
        for session_id in session_ids:
            with database.read() as db:
                yield _checked(db, session_id)
        if not session_ids:
            return
        last = session_ids[-1]


def _next(db: Connection, last: str | None) -> Sequence[str]:
    wanted = select(traces.c.session_id).distinct().order_by(traces.c.session_id).limit(_AT_ONCE)
    return db.scalars(wanted if last is None else wanted.where(traces.c.session_id > last)).all()


def _checked(db: Connection, session_id: str) -> Checked:
    payloads = Payloads(db)
    count, corrupt = 0, list[CorruptTrace]()
    # By turn: a trace's base is an earlier one, and mostly still at hand.
    for row in db.execute(select(traces).where(traces.c.session_id == session_id).order_by(traces.c.turn)):
        count += 1
        try:
            queries.decode(row, payloads)
        except CorruptTrace as exc:
            corrupt.append(exc)
    return Checked(count, corrupt)
