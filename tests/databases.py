"""An empty database to begin with, for migrating one is the dear part of opening it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from storage.opening import open_database


def make_database(path: Path) -> None:
    """A file with this program's schema and nothing in it, if there is none."""
    if not path.exists():
        path.write_bytes(_empty())


@cache
def _empty() -> bytes:
    with TemporaryDirectory(prefix="rollouts-empty-") as folder:
        path = Path(folder) / "rollouts.db"
        open_database(path).close()
        return path.read_bytes()
