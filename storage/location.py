"""Where a database is: a URL in, a file or server out; what is no URL of ours, or another's file, is refused."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from storage.errors import CannotOpen

# What every schema of ours has had, from the first on.
_OURS: Final = frozenset({"alembic_version", "sessions", "traces"})
_A_FILE: Final = "sqlite:///rollouts.db"
_A_SERVER: Final = "postgresql://user@host/name"
_POSTGRES: Final = ("postgresql", "postgres", "postgresql+psycopg")
_PASSWORD: Final = re.compile(r"(?<=password=)[^&]*")


def shown(url: str) -> str:
    """As it may be told to anybody: without a password, wherever one stands in it."""
    before, at, after = url.rpartition("@")
    return _PASSWORD.sub("…", f"{before.partition(':')[0]}://…@{after}" if at else url)


def is_postgres(url: str) -> bool:
    return url.partition(":")[0] in _POSTGRES


def postgres_of(url: str) -> URL:
    """The database that `postgresql://user@host/name` names. Raises CannotOpen."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as exc:
        raise CannotOpen(f"{shown(url)!r} is no database URL: write for instance {_A_SERVER}") from exc
    if not parsed.database:
        raise CannotOpen(f"{shown(url)!r} names no database: write for instance {_A_SERVER}")
    return parsed.set(drivername="postgresql+psycopg")


def file_of(url: str) -> Path:
    """The file that `sqlite:///rollouts.db` names. Raises CannotOpen for whatever else stands there."""
    if "://" not in url:
        raise CannotOpen(f"{shown(url)!r} is no database URL: write {_url_of(url.removeprefix('sqlite:'))}")
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as exc:
        raise CannotOpen(f"{shown(url)!r} is no database URL: write for instance {_A_FILE} or {_A_SERVER}") from exc
    if parsed.drivername != "sqlite":
        raise CannotOpen(f"traces go into SQLite ({_A_FILE}) or PostgreSQL ({_A_SERVER}), not into {parsed.drivername}")
    if parsed.host:
        raise CannotOpen(f"{url!r} names a host, and SQLite has none: write {_url_of(url.removeprefix('sqlite://'))}")
    if parsed.query:
        raise CannotOpen(f"{url!r} has options, and there are none: write {_url_of(parsed.database or '')}")
    if parsed.database in (None, "", ":memory:"):
        raise CannotOpen("a database in memory would not survive the process; name a file: sqlite:///rollouts.db")
    return Path(str(parsed.database))


def check_place(path: Path) -> None:
    """Raises CannotOpen where there can be no file, or is one of another program's or of two names."""
    if not path.parent.is_dir():
        raise CannotOpen(f"{path} can't be opened: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise CannotOpen(f"{path} can't be opened: it is a folder; name a file in it")
    if not path.is_file() or path.stat().st_size == 0:
        return
    if path.stat().st_nlink > 1:
        raise CannotOpen(
            f"{path} has a second name, a hard link, by which another gateway could write to it with a log of its own: "
            "remove one of the two, or make a copy (`rollout-gateway db backup`)"
        )
    tables = _tables_in(path)
    if tables and not tables >= _OURS:
        some = ", ".join(sorted(tables)[:3]) + (" …" if len(tables) > 3 else "")
        raise CannotOpen(f"{path} is another program's database (it has the tables {some}): name a file of its own")


def _tables_in(path: Path) -> frozenset[str]:
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as db:
            return frozenset(name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
    except sqlite3.OperationalError:
        # Locked, or not to be read: whoever opens it for writing says so better.
        return frozenset()
    except sqlite3.DatabaseError as exc:
        raise CannotOpen(f"{path} can't be opened: {exc}") from exc


def _url_of(path: str) -> str:
    """As a person would write it; with a name where there is none."""
    return f"sqlite:///{path.removeprefix('//') or 'rollouts.db'}"
