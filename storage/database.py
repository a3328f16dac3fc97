"""The one door to the database: opens it, sets it up, and hands out connections for reading and for writing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Self

from sqlalchemy import URL, Connection, Engine, Select, Table, create_engine, event
from sqlalchemy.dialects.sqlite import Insert, insert
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.dml import UpdateBase

from storage.errors import CannotOpen, Unavailable
from storage.file_lock import FileLock
from storage.location import check_place, file_of
from storage.migrate import migrate
from storage.statements import Question, Statement, execute

READERS: Final = 4
_WRITER_WAITS_MS: Final = 1_000
_READER_WAITS_MS: Final = 5_000
_WRITER_CACHE_KIB: Final = 16 * 1024
# Of each reader: what one goes through once, as an export does, is better left to the system's own cache.
_READER_CACHE_KIB: Final = 2 * 1024


class Database:
    """One database, open. Its connections may be used from any thread, by one at a time."""

    exclusive: Final = True
    """No other gateway writes to it, so what the writer remembers of it holds."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock
        self._write_engine = _sqlite_engine(path, _WRITER_WAITS_MS, _WRITER_CACHE_KIB, begin="BEGIN IMMEDIATE", size=1)
        self._read_engine = _sqlite_engine(path, _READER_WAITS_MS, _READER_CACHE_KIB, begin="BEGIN", size=READERS + 1)

    @classmethod
    def open(cls, place: str | Path) -> Self:
        """By URL (`sqlite:///rollouts.db`) or by its file. Migrates. Raises CannotOpen, SchemaNewer, AlreadyServed."""
        path = file_of(place) if isinstance(place, str) else place
        check_place(path)
        try:
            database = cls(path, FileLock(path))
        except OSError as exc:
            raise CannotOpen(f"{path} can't be opened: {exc.strerror or exc}") from exc
        try:
            with database._write_engine.begin() as db:
                migrate(db)
        except DBAPIError as exc:
            database.close()
            raise CannotOpen(f"{path} can't be opened: {exc.orig}") from exc
        except BaseException:
            database.close()
            raise
        return database

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One short transaction for reading. Raises Unavailable."""
        try:
            with self._read_engine.connect() as db:
                yield db
        except DBAPIError as exc:
            raise Unavailable(f"the database can't be read: {exc.orig}") from exc

    def question(self, statement: Select[*tuple[Any, ...]]) -> Callable[[str], Any]:
        """For a row that many calls wait for: asks about a value, with a third of the work of a `read`.

        What it gives raises Unavailable.
        """
        question = Question(statement, self._read_engine.dialect)
        refused = self._read_engine.dialect.loaded_dbapi.Error

        def ask(about: str) -> Any:
            try:
                with closing(self._read_engine.raw_connection()) as connection:
                    return question.ask(connection, about)
            except (DBAPIError, refused) as exc:
                raise Unavailable(f"the database can't be read: {exc}") from exc

        return ask

    def write_connection(self) -> Connection:
        """For the writer, which keeps it."""
        return self._write_engine.connect()

    def insert(self, table: Table) -> Insert:
        """An insert that can say what to do on conflict, in the words of this database."""
        return insert(table)

    def prepare(self, statement: UpdateBase, names: Iterable[str]) -> Statement:
        """For a statement that many batches run, with rows that have these names."""
        return Statement(statement, self._write_engine.dialect, names)

    def checkpoint(self) -> int:
        """Move what is committed from the log into the file, beside readers and writer. The log's length in pages."""
        with closing(self._read_engine.raw_connection()) as connection:
            cursor = connection.cursor()
            _, pages, _ = cursor.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            cursor.close()
        return int(pages)

    def close(self) -> None:
        # The last connection that closes moves the write-ahead log into the file.
        self._read_engine.dispose()
        self._write_engine.dispose()
        self._lock.release()


def is_trouble(exc: BaseException) -> bool:
    """Whether the database as a whole, rather than what it was given, is the reason: locked, full, gone."""
    if not isinstance(exc, DBAPIError):
        return isinstance(exc, OSError)
    return exc.connection_invalidated or isinstance(exc, OperationalError) or type(exc) is DatabaseError


def _sqlite_engine(path: Path, waits_ms: int, cache_kib: int, *, begin: str, size: int) -> Engine:
    url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, pool_size=size, max_overflow=0, pool_reset_on_return="rollback")

    @event.listens_for(engine, "connect")
    def set_up(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        # Python's sqlite3 would begin transactions of its own, late and never before DDL.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {waits_ms}")
        cursor.execute("PRAGMA journal_mode = WAL")
        # In WAL, NORMAL survives the death of the process; FULL the machine's too, for 2 ms a commit.
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute(f"PRAGMA cache_size = -{cache_kib}")
        cursor.execute("PRAGMA journal_size_limit = 67108864")
        # SQLite would do it within a commit, for up to a second on a slow disk, while agents wait for their ends.
        cursor.execute("PRAGMA wal_autocheckpoint = 0")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        # A writer that first reads would otherwise find the file locked at its first write, without waiting.
        execute(connection, begin)

    return engine
