"""Which file a database URL names, and whose it is."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from storage.errors import CannotOpen
from storage.location import check_place, file_of
from storage.opening import open_database


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:///rollouts.db", "rollouts.db"),
        ("sqlite:///runs/7.db", "runs/7.db"),
        ("sqlite:////data/rollouts.db", "/data/rollouts.db"),
        ("sqlite:///with space.db", "with space.db"),
    ],
)
def test_a_url_names_a_file(url: str, file: str) -> None:
    assert file_of(url) == Path(file)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite:rollouts.db", "no database URL: write sqlite:///rollouts.db"),
        ("foo", "no database URL: write sqlite:///foo"),
        ("/data/rollouts.db", "no database URL: write sqlite:////data/rollouts.db"),
        ("", "no database URL: write sqlite:///rollouts.db"),
        ("sqlite://rollouts.db", "names a host, and SQLite has none: write sqlite:///rollouts.db"),
        ("sqlite://data/rollouts.db", "write sqlite:///data/rollouts.db"),
        ("sqlite:///a?b=c", "has options, and there are none: write sqlite:///a"),
        ("sqlite:///file:a?mode=memory&uri=true", "has options"),
        ("sqlite://", "in memory"),
        ("sqlite:///", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("postgresql://user:hunter2@host", "'postgresql://…@host' names no database: write for instance postgresql:"),
        ("postgresql://user:hunter2@host:x/name", "'postgresql://…@host:x/name' is no database URL"),
        ("postgresql:/user:hunter2@host/name?password=hunter2", "no database URL"),
        ("mysql://user:hunter2@host/name", "PostgreSQL (postgresql://user@host/name), not into mysql"),
        ("sqlite+aiosqlite:///a.db", "not into sqlite+aiosqlite"),
        ("what is://this", "no database URL"),
    ],
)
def test_what_names_none_is_refused_with_the_right_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CannotOpen) as caught:
        open_database(url)
    assert says in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(CannotOpen, match=f"there is no folder {tmp_path}/missing; make it first"):
        open_database(tmp_path / "missing" / "a.db")


def test_a_folder_in_the_place_of_a_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(CannotOpen, match=f"{tmp_path} can't be opened: it is a folder; name a file in it"):
        open_database(tmp_path)


def test_a_file_of_two_names_is_refused(tmp_path: Path) -> None:
    open_database(tmp_path / "a.db").close()
    os.link(tmp_path / "a.db", tmp_path / "b.db")
    for name in ("a.db", "b.db"):
        with pytest.raises(CannotOpen, match=f"{name} has a second name, a hard link.*remove one of the two"):
            open_database(tmp_path / name)
    (tmp_path / "b.db").unlink()
    open_database(tmp_path / "a.db").close()


def test_another_programs_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as db:
        for table in ("alembic_version", "books", "sessions", "users"):
            db.execute(f"CREATE TABLE {table} (id INTEGER)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(CannotOpen, match=r"the tables alembic_version, books, sessions ….*a file of its own"):
        open_database(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_empty_file_and_our_own_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "a #100%?.db"
    path.touch()
    open_database(path).close()
    check_place(path)
    open_database(path).close()
    assert {each.name for each in tmp_path.iterdir()} == {path.name, f"{path.name}.lock"}
