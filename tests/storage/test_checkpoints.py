from __future__ import annotations

import time
from pathlib import Path

from sqlalchemy import text

from storage.checkpoints import Checkpoints
from storage.database import Database
from storage.opening import open_database


def write(database: Database, marker: str) -> None:
    with database.write_connection() as db, db.begin():
        db.execute(text("INSERT INTO tombstones VALUES (:marker, '2026-11-21')"), {"marker": marker})


def test_what_is_committed_moves_into_the_file_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    database = open_database(path)
    checkpoints = Checkpoints(database, every_bytes=100)
    write(database, "first-marker")
    checkpoints.committed(99)
    time.sleep(0.1)
    assert b"first-marker" not in path.read_bytes()
    checkpoints.committed(1)
    checkpoints.close()
    assert b"first-marker" in path.read_bytes()
    database.close()


def test_a_long_log_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    database = open_database(path)
    checkpoints = Checkpoints(database, every_bytes=1, long_log_pages=0)
    write(database, "first-marker")
    checkpoints.committed(1)
    time.sleep(0.2)
    write(database, "second-marker")
    checkpoints.committed(1)
    assert b"second-marker" in path.read_bytes()
    checkpoints.close()
    database.close()


def test_a_reader_who_takes_long_does_not_stop_writing_or_reading(tmp_path: Path) -> None:
    database = open_database(tmp_path / "a.db")
    checkpoints = Checkpoints(database, every_bytes=1, long_log_pages=0)
    with database.read() as reader:
        assert reader.scalar(text("SELECT count(*) FROM tombstones")) == 0
        for number in range(5):
            write(database, f"marker-{number}")
            checkpoints.committed(1)
        assert reader.scalar(text("SELECT count(*) FROM tombstones")) == 0
    with database.read() as reader:
        assert reader.scalar(text("SELECT count(*) FROM tombstones")) == 5
    checkpoints.close()
    database.close()
