"""Which of the server's errors are told to whoever wrote a trace, and which are waited out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from storage.database import Database
from storage.errors import Unavailable
from storage.opening import open_database
from storage.tables import counters
from storage.transactions import Transactions
from tests.postgres import Postgres
from tests.storage.conftest import on_postgres


@pytest.fixture
def database(place: str) -> Iterator[Database]:
    database = open_database(place)
    yield database
    database.close()


def raising(*sqlstates: str) -> Callable[[Connection], str]:
    """Work in which the server raises these, one each time that it is done, and which succeeds then."""
    left = list(sqlstates)

    def work(db: Connection) -> str:
        if left:
            db.execute(text(f"DO $$ BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = '{left.pop(0)}'; END $$"))
        return "done"

    return work


@on_postgres
@pytest.mark.parametrize(
    "sqlstate",
    [
        "53100",  # disk full
        "53300",  # too many connections
        "57P01",  # an administrator ended it
        "57P03",  # starting up
        "57014",  # it took too long
        "55P03",  # a lock
        "25006",  # read-only after a failover
        "42P01",  # the table is gone
        "42501",  # the right is gone
        "0A000",  # a plan of the schema before
        "54000",  # no transaction ids left
        "3F000",  # the schema is gone
        "F0000",  # a setting that is none
        "58030",  # a disk that fails
        "72000",  # a snapshot too old
        "XX000",  # the server itself is wrong
        "XX001",  # a page is damaged
        "P0001",  # a trigger of somebody's
    ],
)
def test_trouble_of_the_whole_database_is_waited_out(database: Database, sqlstate: str) -> None:
    transactions = Transactions(database)
    work = raising(sqlstate)
    with pytest.raises(Unavailable, match="as told"):
        transactions.run(work)
    assert "as told" in str(transactions.unable)
    assert transactions.run(work) == "done"
    assert transactions.unable is None
    transactions.disconnect()


@on_postgres
@pytest.mark.parametrize("sqlstate", ["21000", "22P02", "22021", "22003", "23505"])
def test_what_was_given_is_told_to_who_gave_it(database: Database, sqlstate: str) -> None:
    transactions = Transactions(database)
    with pytest.raises(DBAPIError, match="as told"):
        transactions.run(raising(sqlstate))
    assert transactions.unable is None
    transactions.disconnect()


@on_postgres
@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
def test_who_has_to_give_way_tries_again_at_once(database: Database, sqlstate: str) -> None:
    transactions = Transactions(database)
    assert transactions.run(raising(*[sqlstate] * 5)) == "done"
    with pytest.raises(Unavailable):
        transactions.run(raising(*[sqlstate] * 6))
    transactions.disconnect()


def test_a_server_that_ends_in_the_midst_is_trouble(own_postgres: Postgres) -> None:
    database = open_database(own_postgres.database())
    transactions = Transactions(database)

    def work(db: Connection) -> Any:
        db.execute(text("SELECT 1"))
        own_postgres.kill()
        return db.execute(text("SELECT 1"))

    for _ in range(2):
        with pytest.raises(Unavailable):
            transactions.run(work)
    own_postgres.start()
    assert transactions.run(lambda db: db.scalar(text("SELECT 2"))) == 2
    transactions.disconnect()
    database.close()


@on_postgres
def test_who_waits_for_a_row_that_is_not_let_go_is_told(database: Database, place: str) -> None:
    transactions = Transactions(database)

    def work(db: Connection) -> None:
        db.execute(text("SET LOCAL lock_timeout = '50ms'"))
        db.execute(text("UPDATE counters SET value = 1"))

    with psycopg.connect(place) as other:
        other.execute("UPDATE counters SET value = 2")
        with pytest.raises(Unavailable, match="lock timeout"):
            transactions.run(work)
    transactions.disconnect()


@on_postgres
def test_one_bad_row_among_many_never_looks_like_trouble(database: Database) -> None:
    """They go to the server in one pipeline, which the error may end before the last of them was sent."""
    statement = database.prepare(database.insert(counters), ("name", "value"))
    transactions = Transactions(database)
    for number in range(60):
        rows = [{"name": str(row), "value": 2**80 if row == number * 5 else row} for row in range(300)]
        with pytest.raises(DBAPIError, match="out of range"):
            transactions.run(partial(statement.execute, rows=rows))
    transactions.disconnect()
