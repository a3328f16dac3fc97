"""PostgreSQL: one database for as many gateways as there are.

Nothing waits for it without end. The server is asked to end what takes too long, and where it does not even do that
(it hangs, its machine is gone) the connection is given up from this side.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final, Self

import psycopg
from sqlalchemy import URL, Connection, Table, func, select
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import PoolProxiedConnection

from storage.database import READERS, Database, DatabaseSize
from storage.durability import Durability
from storage.errors import CannotOpen, Unavailable
from storage.postgres import errors
from storage.postgres.connection import BoundedConnection, Limits, engine
from storage.postgres.naming import name_of
from storage.postgres.upgrade import upgrade

_READER: Final = Limits(statement_s=15, lock_s=5, answer_s=20.0)
_WRITER: Final = Limits(statement_s=8, lock_s=5, answer_s=10.0)
_LOOK_S: Final = 2.0
"""Agents wait for these."""
# Of a gateway that is stopped amid a transaction, others wait for its rows no longer than this.
_IDLE_IN_TRANSACTION: Final = "10s"
_SYNCHRONOUS: Final[dict[Durability, str]] = {"power": "on", "process": "on", "none": "off"}


class PostgresDatabase(Database):
    exclusive = False

    def __init__(self, url: URL, durability: Durability) -> None:
        self._where: Final = name_of(url)
        writes = {
            "synchronous_commit": _SYNCHRONOUS[durability],
            "idle_in_transaction_session_timeout": _IDLE_IN_TRANSACTION,
        }
        super().__init__(
            # A page is what there was at one moment: nothing that it needs is deleted while it is read.
            readers=engine(
                url, {}, _READER, begin="BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", size=READERS + 1
            ),
            # Who has waited for a row has to see what the one wrote who had it.
            writers=engine(url, writes, _WRITER, begin="BEGIN ISOLATION LEVEL READ COMMITTED", size=1),
        )

    @classmethod
    def at(cls, url: URL, durability: Durability) -> Self:
        """Migrates, one gateway after the other. Raises CannotOpen, SchemaNewer."""
        try:
            database = cls(url, durability)
        except ArgumentError as exc:
            raise CannotOpen(f"the database's URL can't be used: {exc}") from exc
        where = database._where
        try:
            with database._writers.connect() as db:
                try:
                    upgrade(db, where)
                finally:
                    db.invalidate()  # It may wait as nobody else should.
        except (DBAPIError, psycopg.Error) as exc:
            database.close()
            raise CannotOpen(f"{where} can't be opened: {errors.told(exc)}") from exc
        except BaseException:
            database.close()
            raise
        return database

    @property
    def spool(self) -> Path:
        return Path("rollout-gateway-spool")

    def name_at(self, folder: Path) -> str:
        return self._where

    def check(self) -> None:
        """The server sees to that."""

    def insert(self, table: Table) -> Insert:
        return insert(table)

    def now(self, db: Connection) -> datetime:
        """The server's, for the clocks of gateways differ."""
        now: datetime = db.execute(select(func.clock_timestamp())).scalar_one()
        return now

    def size(self, db: Connection) -> DatabaseSize:
        bytes_: int = db.execute(select(func.pg_database_size(func.current_database()))).scalar_one()
        return DatabaseSize(bytes_, None)  # Its own vacuum makes room in the tables for what comes next.

    def is_trouble(self, exc: BaseException) -> bool:
        return errors.is_trouble(exc)

    def is_conflict(self, exc: BaseException) -> bool:
        return errors.is_conflict(exc)

    def _look_connection(self) -> PoolProxiedConnection:
        connection = super()._look_connection()
        driver = connection.driver_connection
        assert isinstance(driver, BoundedConnection)
        driver.answer_s = _LOOK_S
        return connection

    def _unavailable(self, exc: Exception) -> Unavailable:
        unavailable = Unavailable(f"the database can't be read: {errors.told(exc)}")
        if errors.is_silence(exc):
            self._pause.begin(unavailable)
        return unavailable
