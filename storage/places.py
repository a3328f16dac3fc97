"""The place of each session among those that have ended, so that who reads them in that order misses none.

Places rise in the order of commits: the counter's row is locked from the moment that a place is taken until its
transaction ends, so whoever sees a place sees all before it. On SQLite the one writer sees to that anyway.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, select, update

from adapters.schema import Session
from storage.tables import counters, sessions

_COUNT: Final = (
    update(counters)
    .where(counters.c.name == "ended_seq")
    .values(value=counters.c.value + 1)
    .returning(counters.c.value)
)


def give(db: Connection, session: Session) -> None:
    """In the transaction that writes it: a place where it has ended and has none yet."""
    if session.status == "open":
        return
    of_it = sessions.c.session_id == session.session_id
    if db.scalar(select(sessions.c.ended_seq).where(of_it)) is None:
        place = db.execute(_COUNT).scalar_one()
        db.execute(update(sessions).where(of_it).values(ended_seq=place))
