"""The one door to a database: hands out connections for reading and for writing, and knows what its errors mean."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

from sqlalchemy import Connection, Engine, Select, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.sql.dml import UpdateBase

from storage.errors import Unavailable
from storage.pause import Pause
from storage.statements import Question, Statement

READERS: Final = 4

Clock: TypeAlias = Callable[[Connection], datetime]
"""Tells a transaction the time by which it judges: `Database.now`, or a test's own."""
Insert: TypeAlias = sqlite.Insert | postgresql.Insert
"""An insert that can say what to do on conflict."""


@dataclass(frozen=True, slots=True)
class DatabaseSize:
    bytes: int
    """On disk, indexes and all."""
    free_bytes: int | None
    """Of them those that nothing stands in; null where the database does not say."""


class Database(ABC):
    """One database, open. Its connections may be used from any thread, by one at a time."""

    exclusive: ClassVar[bool]
    """Whether no other gateway writes to it, so that what the writer remembers of it holds."""

    def __init__(self, *, readers: Engine, writers: Engine) -> None:
        self._readers: Final = readers
        self._writers: Final = writers
        self._pause: Final = Pause()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One short transaction for reading, which sees what was there at its begin. Raises Unavailable."""
        self._pause.check()
        try:
            with self._readers.connect() as db:
                yield db
        except (DBAPIError, NoConnection) as exc:
            raise self._unavailable(exc) from exc

    def question(self, statement: Select[*tuple[Any, ...]]) -> Callable[[str], Any]:
        """For a row that many calls wait for: asks about a value, with a third of the work of a `read`.

        What it gives raises Unavailable, and does so soon.
        """
        question = Question(statement, self._readers.dialect)
        refused = self._readers.dialect.loaded_dbapi.Error

        def ask(about: str) -> Any:
            self._pause.check()
            try:
                with closing(self._look_connection()) as connection:
                    try:
                        return question.ask(connection, about)
                    except refused:
                        connection.invalidate()  # It may be what is wrong, and a new one costs little beside an error.
                        raise
            except (DBAPIError, NoConnection, refused) as exc:
                raise self._unavailable(exc) from exc

        return ask

    def write_connection(self) -> Connection:
        """For the writer, which keeps it."""
        return self._writers.connect()

    def prepare(self, statement: UpdateBase, names: Iterable[str]) -> Statement:
        """For a statement that many batches run, with rows that have these names."""
        return Statement(statement, self._writers.dialect, names)

    @abstractmethod
    def check(self) -> None:
        """Before each write: that others would find it. Raises Unavailable, AlreadyServed."""

    @property
    @abstractmethod
    def spool(self) -> Path:
        """The folder that keeps what it does not take, unless another is named."""

    @abstractmethod
    def name_at(self, folder: Path) -> str:
        """By which a spool in this folder knows that it is kept for this database, and for no other."""

    @abstractmethod
    def insert(self, table: Table) -> Insert:
        """An insert in the words of this database."""

    @abstractmethod
    def now(self, db: Connection) -> datetime:
        """The time by which heartbeats, leases and ages are judged: one clock for all who share the database."""

    @abstractmethod
    def is_trouble(self, exc: BaseException) -> bool:
        """Whether the database as a whole, rather than what it was given, is the reason: locked, full, gone."""

    @abstractmethod
    def is_conflict(self, exc: BaseException) -> bool:
        """Whether a transaction only came into another one's way, and may be tried again at once."""

    @abstractmethod
    def size(self, db: Connection) -> DatabaseSize:
        """What it takes on disk."""

    def shrink(self, db: Connection) -> int:
        """Give some of what deleted rows have left back to the file system. How many bytes; 0 when that is all."""
        return 0

    def checkpoint(self) -> int:
        """Where that is ours to do: move what is committed from the log into its place. The log's length in pages."""
        return 0

    def close(self) -> None:
        self._readers.dispose()
        self._writers.dispose()

    def _look_connection(self) -> PoolProxiedConnection:
        return self._readers.raw_connection()

    def _unavailable(self, exc: Exception) -> Unavailable:
        return Unavailable(f"the database can't be read: {getattr(exc, 'orig', exc)}")
