"""Why nothing can be written, as it is told to whoever waits and to the log."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NoReturn

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from storage.errors import Unavailable
from storage.opening import open_database
from storage.transactions import Transactions


def test_a_reason_is_one_line_of_what_the_driver_says(tmp_path: Path) -> None:
    def refused(_: Connection) -> NoReturn:
        words = sqlite3.OperationalError("database is locked\n\tIs another program writing?")
        raise OperationalError("INSERT", {}, words) from words

    database = open_database(tmp_path / "rollouts.db")
    transactions = Transactions(database)
    with pytest.raises(Unavailable, match=r"can't be written: database is locked$"):
        transactions.run(refused)
    assert transactions.unable == "database is locked"
    transactions.disconnect()
    database.close()
