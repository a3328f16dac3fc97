"""Backends that an administrator added, and what was done with those of the configuration; both outlive the process."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict

from sqlalchemy import Connection, delete, func, insert, select, update

from storage.records import StoredBackend
from storage.tables import backends, sessions


def every(db: Connection) -> tuple[StoredBackend, ...]:
    rows = db.execute(select(backends).order_by(backends.c.name))
    return tuple(StoredBackend(**row._mapping) for row in rows)


def put(db: Connection, backend: StoredBackend) -> None:
    """Add it, or replace the one of its name."""
    remove(db, backend.name)
    db.execute(insert(backends), asdict(backend))


def change(db: Connection, backend: StoredBackend, changed: Collection[str]) -> bool:
    """Write these fields of it alone, for another gateway may be changing the others. False: there is none of its name.

    One of the configuration has no row before its first change.
    """
    told = asdict(backend)
    of_it = backends.c.name == backend.name
    values = {name: told[name] for name in changed}
    found = db.execute(update(backends).where(of_it).values(values)).rowcount > 0
    if not found and backend.source == "config":
        db.execute(insert(backends), told)
        return True
    return found


def remove(db: Connection, name: str) -> bool:
    return db.execute(delete(backends).where(backends.c.name == name)).rowcount > 0


def open_sessions(db: Connection, name: str) -> int:
    """How many sessions have it and have not ended."""
    c = sessions.c
    count = select(func.count()).select_from(sessions).where(c.backend == name, c.status == "open", ~c.implicit)
    return db.execute(count).scalar_one()
