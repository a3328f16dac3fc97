from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from storage.errors import AlreadyServed, CannotOpen, SchemaNewer, Unavailable
from storage.opening import open_database
from storage.tables import metadata
from storage.transactions import Transactions


def test_the_migrations_make_the_tables_that_the_program_names(tmp_path: Path) -> None:
    database = open_database(tmp_path / "a.db")
    with database.read() as db:
        assert compare_metadata(MigrationContext.configure(db), metadata) == []
    database.close()


def test_a_database_opens_again_by_url_and_by_path(tmp_path: Path) -> None:
    for place in (f"sqlite:///{tmp_path}/a.db", tmp_path / "a.db"):
        open_database(place).close()


def test_a_schema_newer_than_the_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    open_database(path).close()
    with sqlite3.connect(path) as db:
        (head,) = db.execute("SELECT version_num FROM alembic_version").fetchone()
        db.execute("UPDATE alembic_version SET version_num = '9999'")
    before = path.read_bytes()
    with pytest.raises(SchemaNewer, match=r"schema 9999.*newer rollout-gateway"):
        open_database(path)
    assert path.read_bytes() == before
    with sqlite3.connect(path) as db:
        db.execute("UPDATE alembic_version SET version_num = ?", (head,))
    open_database(path).close()


def test_a_second_gateway_on_one_file_is_told_what_would_do(tmp_path: Path) -> None:
    first = open_database(tmp_path / "a.db")
    with pytest.raises(AlreadyServed, match=rf"process {os.getpid()}.*start this one with another --database"):
        open_database(tmp_path / "a.db")
    first.close()
    open_database(tmp_path / "a.db").close()


def test_a_second_gateway_by_a_link_is_the_second_on_that_file(tmp_path: Path) -> None:
    first = open_database(tmp_path / "a.db")
    (tmp_path / "link.db").symlink_to("a.db")
    with pytest.raises(AlreadyServed, match=f"process {os.getpid()}"):
        open_database(tmp_path / "link.db")
    first.close()


def test_a_lock_that_was_removed_is_taken_again_by_who_writes_first(tmp_path: Path) -> None:
    first = open_database(tmp_path / "a.db")
    (tmp_path / "a.db.lock").unlink()
    first.check()
    with pytest.raises(AlreadyServed):
        open_database(tmp_path / "a.db")
    (tmp_path / "a.db.lock").unlink()
    second = open_database(tmp_path / "a.db")
    transactions = Transactions(first)
    with pytest.raises(Unavailable, match=rf"already served by another gateway \(process {os.getpid()}\)"):
        transactions.run(lambda db: None)
    second.close()
    assert transactions.run(lambda db: "done") == "done"
    transactions.disconnect()
    first.close()


def test_a_file_that_was_moved_away_is_not_written_and_not_made_again(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "a.db", tmp_path / "b.db"
    database = open_database(path)
    transactions = Transactions(database)
    transactions.run(lambda db: None)
    path.rename(elsewhere)
    for _ in range(2):
        with pytest.raises(Unavailable, match=rf"{path} was removed or replaced.*put it back, or start"):
            transactions.run(lambda db: None)
    with pytest.raises(Unavailable), database.read() as one, database.read() as other:
        assert one is not other
    assert not path.exists()
    elsewhere.rename(path)
    assert transactions.run(lambda db: "done") == "done"
    transactions.disconnect()
    database.close()


def test_a_gateway_that_was_killed_holds_no_lock(tmp_path: Path) -> None:
    program = "import sys, time; from pathlib import Path; from storage.opening import open_database\n"
    program += "database = open_database(Path(sys.argv[1])); print('open', flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "a.db")], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child, child.stdout:
        assert child.stdout.readline() == b"open\n"
        with pytest.raises(AlreadyServed, match=f"process {child.pid}"):
            open_database(tmp_path / "a.db")
        child.send_signal(signal.SIGKILL)
        child.wait()
    open_database(tmp_path / "a.db").close()


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(CannotOpen, match="can't be opened"):
        open_database(tmp_path)


def test_a_file_that_is_no_database_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, and longer than the hundred bytes of a header" * 5)
    with pytest.raises(CannotOpen, match="not a database"):
        open_database(path)
    assert path.read_text().startswith("not a database")


def test_what_can_not_be_read_is_unavailable(tmp_path: Path) -> None:
    database = open_database(tmp_path / "a.db")
    with pytest.raises(Unavailable), database.read() as db:
        db.execute(text("SELECT * FROM nothing"))
    database.close()


def test_writing_does_not_stop_reading(tmp_path: Path) -> None:
    database = open_database(tmp_path / "a.db")
    with database.write_connection() as writer, writer.begin():
        writer.execute(text("INSERT INTO tombstones VALUES ('s', '2026-11-21')"))
        with database.read() as reader:
            assert reader.scalar(text("SELECT count(*) FROM tombstones")) == 0
    with database.read() as reader:
        assert reader.scalar(text("SELECT count(*) FROM tombstones")) == 1
    database.close()
