"""SQLite: one file, one gateway, no set-up."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event
from sqlalchemy.dialects.sqlite import Insert, insert
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from storage.database import READERS, Database, DatabaseSize
from storage.durability import Durability
from storage.errors import AlreadyServed, CannotOpen, Unavailable
from storage.file_lock import FileLock
from storage.files import is_at
from storage.location import check_place
from storage.migrate import migrate
from storage.statements import execute

# In WAL, NORMAL survives the death of the process; FULL the machine's too, for 2 ms a commit.
_SYNCHRONOUS: Final[dict[Durability, str]] = {"power": "FULL", "process": "NORMAL", "none": "OFF"}


_INCREMENTAL: Final = 2
"""A setting of the file: pages can be given back, where `incremental_vacuum` is asked for."""
_SHRUNK_PAGES: Final = 256


@dataclass(frozen=True, slots=True)
class _Terms:
    """Of a connection: how long it waits for another's lock, and what it caches."""

    waits_ms: int
    cache_kib: int


_WRITER: Final = _Terms(waits_ms=1_000, cache_kib=16 * 1024)
# Of each reader: what one goes through once, as an export does, is better left to the system's own cache.
_READER: Final = _Terms(waits_ms=5_000, cache_kib=2 * 1024)


class SqliteDatabase(Database):
    exclusive = True

    def __init__(self, path: Path, lock: FileLock, durability: Durability) -> None:
        self.path: Final = path
        self._lock: Final = lock
        self._opened: Final = path.stat()
        super().__init__(
            readers=_engine(path, durability, _READER, begin="BEGIN", size=READERS + 1),
            # A writer that first reads would otherwise find the file locked at its first write, without waiting.
            writers=_engine(path, durability, _WRITER, begin="BEGIN IMMEDIATE", size=1),
        )

    @classmethod
    def at(cls, path: Path, durability: Durability) -> Self:
        """Migrates. Raises CannotOpen, SchemaNewer, AlreadyServed."""
        check_place(path)
        try:
            path.touch()
            database = cls(path, FileLock(path), durability)
        except OSError as exc:
            raise CannotOpen(f"{path} can't be opened: {exc.strerror or exc}") from exc
        try:
            with database._writers.begin() as db:
                migrate(db)
        except DBAPIError as exc:
            database.close()
            raise CannotOpen(f"{path} can't be opened: {exc.orig}") from exc
        except BaseException:
            database.close()
            raise
        return database

    def check(self) -> None:
        if not is_at(self.path, self._opened):
            raise Unavailable(
                f"{self.path} was removed or replaced while it was served: put it back, or start the gateway anew"
            )
        self._lock.hold()

    @property
    def spool(self) -> Path:
        return self.path.with_name(f"{self.path.name}-spool")

    def name_at(self, folder: Path) -> str:
        # Both may be moved together.
        return os.path.relpath(self.path.resolve(), folder.resolve())

    def insert(self, table: Table) -> Insert:
        return insert(table)

    def now(self, db: Connection) -> datetime:
        return datetime.now(UTC)

    def is_trouble(self, exc: BaseException) -> bool:
        if not isinstance(exc, DBAPIError):
            return isinstance(exc, OSError | Unavailable | AlreadyServed)
        return exc.connection_invalidated or isinstance(exc, OperationalError) or type(exc) is DatabaseError

    def is_conflict(self, exc: BaseException) -> bool:
        """Never: there is one writer."""
        return False

    def size(self, db: Connection) -> DatabaseSize:
        pages, free, page_size = (_pragma(db, name) for name in ("page_count", "freelist_count", "page_size"))
        return DatabaseSize(pages * page_size, free * page_size)

    def shrink(self, db: Connection) -> int:
        """Of a file that was made without that in view: nothing. `rewrite` makes it another."""
        before = self.size(db)
        if _pragma(db, "auto_vacuum") != _INCREMENTAL:
            return 0
        for _ in range(_SHRUNK_PAGES):
            execute(db, "PRAGMA incremental_vacuum(1)")  # The driver takes but one step of a longer one.
        return before.bytes - self.size(db).bytes

    def rewrite(self) -> int:
        """Write the file anew without what is free in it, and so that it can `shrink` from now on. The bytes saved.

        Takes as long as copying it, and as much room beside it. Raises Unavailable where there is none.
        """
        try:
            with closing(self._writers.raw_connection()) as connection:
                cursor = connection.cursor()
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                before = self.path.stat().st_size
                cursor.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
                cursor.execute("VACUUM")
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                cursor.close()
        except sqlite3.Error as exc:
            raise Unavailable(f"{self.path} can't be written anew: {exc}") from exc
        return before - self.path.stat().st_size

    def checkpoint(self) -> int:
        """Beside readers and writer."""
        with closing(self._readers.raw_connection()) as connection:
            cursor = connection.cursor()
            _, pages, _ = cursor.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            cursor.close()
        return int(pages)

    def close(self) -> None:
        # The last connection that closes moves the write-ahead log into the file.
        super().close()
        self._lock.release()


def _pragma(db: Connection, name: str) -> int:
    return int(db.exec_driver_sql(f"PRAGMA {name}").scalar_one())


def _engine(path: Path, durability: Durability, terms: _Terms, *, begin: str, size: int) -> Engine:
    # A file that is not there is not made again: `mode`.
    url = URL.create("sqlite", database=f"file:{quote(str(path))}", query={"mode": "rw", "uri": "true"})
    # What a statement was given are agents' words, and an error's text goes into the log.
    engine = create_engine(url, pool_size=size, max_overflow=0, pool_reset_on_return="rollback", hide_parameters=True)

    @event.listens_for(engine, "connect")
    def set_up(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        # Python's sqlite3 would begin transactions of its own, late and never before DDL.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {terms.waits_ms}")
        if cursor.execute("PRAGMA page_count").fetchone() == (0,):  # What is deleted can then be given back.
            cursor.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute(f"PRAGMA cache_size = -{terms.cache_kib}")
        cursor.execute("PRAGMA journal_size_limit = 67108864")
        # SQLite would do it within a commit, for up to a second on a slow disk, while agents wait for their ends.
        cursor.execute("PRAGMA wal_autocheckpoint = 0")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        execute(connection, begin)

    return engine
