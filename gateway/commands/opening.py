"""How the `db` commands open a database: one that is there, for a mistyped name would be made, empty and faultless."""

from __future__ import annotations

from gateway.commands.errors import WrongUse
from storage.database import Database
from storage.location import file_of, is_postgres
from storage.opening import open_database


def open_existing(url: str) -> Database:
    """Raises WrongUse where there is no such file; as `open_database`."""
    if not is_postgres(url) and not (path := file_of(url)).exists():
        raise WrongUse(f"there is no file {path}; rollout-gateway db upgrade --database {url} makes a new database")
    return open_database(url)
