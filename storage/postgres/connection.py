"""Connections to PostgreSQL that wait for nothing without end, and are looked at before they are used again."""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import Format
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from storage.statements import execute

_CONNECT_S: Final = 3
_WAITS_FOR_A_CONNECTION_S: Final = 5
# A machine that is gone says nothing: after so long the kernel gives it up, on either side.
_GONE: Final = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 15_000}
_DEFAULTS: Final[Mapping[str, Any]] = _GONE | {
    "application_name": "rollout-gateway",
    "client_encoding": "utf8",
    "connect_timeout": _CONNECT_S,
}
"""Of the driver's parameters; each can be said otherwise in the URL."""
_SESSION: Final[dict[str, str]] = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    # A plan is made once and used a thousand times; to compile it costs more than all these together.
    "jit": "off",
    # Connections that are kept are idle at times, and are not to be cut for that.
    "idle_session_timeout": "0",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """In seconds. The server keeps the first two; the last is for one that no longer does, and longer than they are."""

    statement_s: int
    lock_s: int
    answer_s: float


class BoundedConnection(psycopg.Connection[Any]):
    """One that is given up when the server has not answered for `answer_s` seconds."""

    answer_s: float = 30.0

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        began = time.monotonic()
        try:
            return super().wait(gen, interval, self.answer_s if timeout is None else timeout)
        except psycopg.OperationalError as exc:
            if exc.sqlstate is not None or time.monotonic() - began < self.answer_s:
                raise
            self.close()  # What it would say next would be the answer to this.
            raise psycopg.OperationalError(f"the server has not answered for {self.answer_s:g} s") from exc


class _BinaryCursor(psycopg.Cursor[Any]):
    """Bytes come as they are, not as twice as many digits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.format = Format.BINARY


class _BinaryServerCursor(psycopg.ServerCursor[Any]):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.format = Format.BINARY


def engine(url: URL, settings: dict[str, str], limits: Limits, *, begin: str, size: int) -> Engine:
    """A pool of so many connections; each transaction starts with `begin`."""
    made = create_engine(
        url,
        connect_args={name: value for name, value in _DEFAULTS.items() if name not in url.query},
        paramstyle="format",
        use_native_hstore=False,
        pool_size=size,
        max_overflow=0,
        pool_timeout=_WAITS_FOR_A_CONNECTION_S,
        pool_reset_on_return="rollback",
        hide_parameters=True,
    )
    said = _SESSION | settings | {"statement_timeout": f"{limits.statement_s}s", "lock_timeout": f"{limits.lock_s}s"}
    set_all = "SELECT " + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in said.items())

    @event.listens_for(made, "do_connect")
    def connect(
        dialect: Dialect, record: ConnectionPoolEntry, args: tuple[Any, ...], parameters: dict[str, Any]
    ) -> BoundedConnection:
        # A single question needs no transaction, and those who want one begin it.
        connection = BoundedConnection.connect(*args, autocommit=True, **parameters)
        connection.answer_s = limits.answer_s
        connection.execute(set_all)
        connection.cursor_factory = _BinaryCursor
        connection.server_cursor_factory = _BinaryServerCursor
        return connection

    @event.listens_for(made, "checkout")
    def look(connection: BoundedConnection, record: ConnectionPoolEntry, proxy: PoolProxiedConnection) -> None:
        connection.answer_s = limits.answer_s
        if not _stands(connection):
            raise DisconnectionError("the server has closed it")

    @event.listens_for(made, "begin")
    def begin_transaction(db: Connection) -> None:
        execute(db, begin)

    return made


def wait_for_others(db: Connection) -> None:
    """Let this connection wait as long as an upgrade of the schema may take."""
    driver = db.connection.driver_connection
    assert isinstance(driver, BoundedConnection)
    driver.answer_s = 3_600
    execute(db, "SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false)")


def _stands(connection: BoundedConnection) -> bool:
    """Whether the server has not closed it since it was last used. It costs next to nothing: the kernel is asked."""
    try:
        poll = select.poll()
        poll.register(connection.pgconn.socket, select.POLLIN)
        while poll.poll(0):  # First its last words, then the end.
            connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return not connection.broken
