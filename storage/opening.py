"""Which kind of database a place names, and the opening of it."""

from __future__ import annotations

from pathlib import Path

from storage.database import Database
from storage.durability import DEFAULT_DURABILITY, Durability
from storage.errors import CannotOpen
from storage.location import file_of, is_postgres, postgres_of, shown
from storage.sqlite import SqliteDatabase


def open_database(place: str | Path, durability: Durability = DEFAULT_DURABILITY) -> Database:
    """By URL, or by the file of a path. Migrates. Raises CannotOpen, SchemaNewer, AlreadyServed."""
    if isinstance(place, Path):
        return SqliteDatabase.at(place, durability)
    if not is_postgres(place):
        return SqliteDatabase.at(file_of(place), durability)
    url = postgres_of(place)
    try:
        # Here, because whoever stores in SQLite need not have its driver.
        from storage.postgres.database import PostgresDatabase
    except ImportError as exc:
        raise CannotOpen(
            f"{shown(place)} needs PostgreSQL's driver ({exc}): pip install 'rollout-gateway[postgres]'"
        ) from exc
    return PostgresDatabase.at(url, durability)
