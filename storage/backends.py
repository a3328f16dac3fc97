"""Backends that an administrator added, which outlive the process."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import Connection, delete, insert, select

from storage.records import StoredBackend
from storage.tables import backends


def every(db: Connection) -> tuple[StoredBackend, ...]:
    rows = db.execute(select(backends).order_by(backends.c.name))
    return tuple(StoredBackend(**row._mapping) for row in rows)


def put(db: Connection, backend: StoredBackend) -> None:
    """Add it, or replace the one of its name."""
    remove(db, backend.name)
    db.execute(insert(backends), asdict(backend))


def remove(db: Connection, name: str) -> bool:
    return db.execute(delete(backends).where(backends.c.name == name)).rowcount > 0
