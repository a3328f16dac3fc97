"""`db check` and `db backup`, on files."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from adapters.schema import Session
from gateway.commands.errors import CommandFailed, WrongUse
from gateway.commands.keeping import backup, check
from storage.store import Store
from tests.gateway.api.harness import STARTED, trace


async def recorded(path: Path, count: int = 3) -> Store:
    """A store that is still open, with calls of one session."""
    store = Store.open(path, gateway_id="g")
    for number in range(count):
        one = trace(number)
        store.begin(one, Session(one.session_id, STARTED))
        await store.finish(one, timeout=10)
    return store


def names(folder: Path, start: str) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(start))


def told(path: Path) -> str:
    console = Console(file=io.StringIO(), width=200)
    check(f"sqlite:///{path}", console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_file_that_is_not_there_is_not_found_faultless(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="there is no file"):
        told(tmp_path / "mistyped.db")
    assert not list(tmp_path.iterdir())


async def test_a_copy_made_beside_a_gateway_has_all_that_was_committed(tmp_path: Path) -> None:
    store = await recorded(tmp_path / "rollouts.db")
    backup(f"sqlite:///{tmp_path / 'rollouts.db'}", tmp_path / "copy.db", Console(file=io.StringIO()))
    await store.close()
    assert names(tmp_path, "copy") == ["copy.db"]
    assert told(tmp_path / "copy.db") == "All 3 traces can be read back as they were written.\n"


async def test_a_trace_that_is_not_what_was_written_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    await (await recorded(tmp_path / "rollouts.db")).close()
    with closing(sqlite3.connect(tmp_path / "rollouts.db")) as db, db:
        db.execute("UPDATE traces SET digest = x'00112233445566778899aabbccddeeff' WHERE turn = 1")
    console = Console(file=io.StringIO(), width=200)
    with pytest.raises(CommandFailed, match="1 of 3 traces can't be read back; all others can"):
        check(f"sqlite:///{tmp_path / 'rollouts.db'}", console)
    assert isinstance(console.file, io.StringIO)
    assert trace(1).trace_id in console.file.getvalue()


async def test_what_cannot_be_copied_is_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rollouts.db'}"
    with pytest.raises(CommandFailed, match="can't be written from"):
        backup(url, tmp_path / "copy.db", Console(file=io.StringIO()))
    await (await recorded(tmp_path / "rollouts.db")).close()
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(WrongUse, match="exists already"):
        backup(url, tmp_path / "copy.db", Console(file=io.StringIO()))
    assert (tmp_path / "copy.db").read_text() == "mine"
    with pytest.raises(WrongUse, match="pg_dump"):
        backup("postgresql://a@b/c", tmp_path / "other.db", Console(file=io.StringIO()))
    assert names(tmp_path, "other") == []
