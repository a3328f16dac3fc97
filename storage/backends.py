"""Backends that an administrator added, and what was done with those of the configuration; both outlive the process."""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from dataclasses import asdict
from functools import partial

from sqlalchemy import Connection, delete, func, insert, select, update

from storage.records import StoredBackend
from storage.tables import backends, sessions
from storage.upkeep import Read, Write


class Backends:
    """A store's backends, for one event loop."""

    def __init__(self, read: Read, write: Write) -> None:
        self._read = read
        self._write = write

    def every(self) -> Awaitable[tuple[StoredBackend, ...]]:
        """By name."""
        return self._read(every)

    def put(self, backend: StoredBackend) -> Awaitable[None]:
        """Add it, or replace the one of its name."""
        return self._write(None, partial(put, backend=backend))

    def change(self, backend: StoredBackend, changed: Collection[str]) -> Awaitable[bool]:
        """Write these fields of it. False where it was removed; one of the configuration is written all the same."""
        return self._write(None, partial(change, backend=backend, changed=changed))

    def remove(self, name: str) -> Awaitable[bool]:
        """False: there is none of that name."""
        return self._write(None, partial(remove, name=name))

    def open_sessions(self, name: str) -> Awaitable[int]:
        """How many sessions have this backend and have not ended."""
        return self._read(open_sessions, name)


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
