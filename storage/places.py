"""The place of each session among those that have ended, so that who reads them in that order misses none.

Places rise in the order of commits: the counter's row is locked from the moment that a place is taken until its
transaction ends, so whoever sees a place sees all before it. On SQLite the one writer sees to that anyway.

A session that has a place *moves* where it is labelled anew, ends again or is deleted: who remembers what is below a
place has to look again.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from sqlalchemy import Connection, select, update

from adapters.schema import Session
from storage.tables import counters, sessions

_LAST: Final = "ended_seq"
_MOVED: Final = "moved"
_labels: Final = attrgetter("status", "run_id", "group_id", "purpose")
"""By which the sessions that have ended are asked for."""


def give(db: Connection, session: Session, before: Session | None = None) -> None:
    """In the transaction that writes it: a place where it has ended and has none yet. `before` is what it was."""
    if session.status == "open":
        return
    of_it = sessions.c.session_id == session.session_id
    if db.scalar(select(sessions.c.ended_seq).where(of_it)) is None:
        db.execute(update(sessions).where(of_it).values(ended_seq=_count(db, _LAST)))
    elif before is not None and _labels(before) != _labels(session):
        moved(db)


def moved(db: Connection) -> None:
    """A session that has a place moves in this transaction."""
    _count(db, _MOVED)


def counted(db: Connection) -> tuple[int, int]:
    """The last place that was given, and how often sessions moved."""
    values = {row.name: row.value for row in db.execute(select(counters))}
    return values[_LAST], values[_MOVED]


def _count(db: Connection, name: str) -> int:
    counted = update(counters).where(counters.c.name == name).values(value=counters.c.value + 1)
    value: int = db.execute(counted.returning(counters.c.value)).scalar_one()
    return value
