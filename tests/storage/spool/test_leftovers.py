from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.jobs import Pin
from storage.spool.backlog import Backlog
from storage.spool.entries import EntryEncoder
from storage.spool.folder import Owner, SpoolFolder, adopted
from storage.spool.frames import MAGIC
from storage.spool.leftovers import take_in
from storage.spool.segment import Segment

OWNER = Owner("gateway-1", "../a.db")
encode = EntryEncoder().encode


def left(root: Path, *backends: str) -> Path:
    """The file of a process that died with these pins in it."""
    folder = SpoolFolder.create(root, OWNER)
    segment = Segment.create(folder.new_path(), 1 << 16)
    for backend in backends:
        segment.append(segment.framed(encode(Pin(1024, "session", backend), 1.0)))
    segment.close()
    folder.close()
    return segment.path


def taken_in(root: Path) -> tuple[list[str], int]:
    """The backends that were pinned, and how much was refused."""
    backlog = Backlog(root)
    folders = list(adopted(root, OWNER.database, takes_unowned=False))
    take_in(backlog, folders)
    entries = backlog.read(100, 1 << 20)
    backlog.drained(entries)
    for folder in backlog.emptied():
        folder.close()
    return [entry.job.backend for entry in entries if isinstance(entry.job, Pin)], backlog.refused


def flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(flipped(3), id="a bit of the first line"),
        pytest.param(flipped(len(MAGIC) + 2), id="a bit of the mark"),
        pytest.param(lambda data: data.replace(b"spool 1", b"spool 2"), id="another format"),
        pytest.param(lambda data: data[:30], id="cut within its head"),
        pytest.param(lambda _: b"somebody's notes", id="a stranger's"),
    ],
)
def test_a_file_that_can_not_be_read_is_kept_as_it_is_counted_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[bytes], bytes]
) -> None:
    path = left(tmp_path, "gpu-1")
    path.write_bytes(damage(path.read_bytes()))
    kept = path.read_bytes()
    with caplog.at_level(logging.ERROR):
        assert taken_in(tmp_path) == ([], 1)
    (aside,) = (tmp_path / "refused").iterdir()
    assert aside.read_bytes() == kept
    assert str(path) in caplog.text


@pytest.mark.parametrize("size", [0, 20, 1 << 16])
def test_a_file_whose_making_was_cut_short_goes_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    path = left(tmp_path / "spool")
    path.write_bytes(bytes(size))
    assert taken_in(tmp_path / "spool") == ([], 0)
    assert caplog.messages == []
    assert not (tmp_path / "spool").exists()


def test_a_last_record_that_was_damaged_is_told_and_its_file_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = left(tmp_path, "gpu-1", "gpu-2")
    data = path.read_bytes()
    path.write_bytes(flipped(data.rindex(b"gpu-2"))(data))
    assert taken_in(tmp_path) == (["gpu-1"], 1)
    assert len(list((tmp_path / "refused").iterdir())) == 1
    assert "no whole record stands there" in caplog.text


def test_a_file_that_was_cut_amid_its_last_record_is_kept(tmp_path: Path) -> None:
    path = left(tmp_path, "gpu-1", "gpu-2")
    os.truncate(path, path.read_bytes().rindex(b"gpu-2"))
    assert taken_in(tmp_path) == (["gpu-1"], 1)
    assert len(list((tmp_path / "refused").iterdir())) == 1


@pytest.mark.parametrize("pages", [1, 3])
def test_a_record_that_a_kill_tore_is_no_loss(tmp_path: Path, caplog: pytest.LogCaptureFixture, pages: int) -> None:
    """It was never told as safe; the kernel had taken some pages of it."""
    path = left(tmp_path / "spool", "gpu-1", "x" * 20_000)
    data = path.read_bytes()
    path.write_bytes(data[: pages * 4096].ljust(len(data), b"\0"))
    assert taken_in(tmp_path / "spool") == (["gpu-1"], 0)
    assert caplog.messages == []
    assert not (tmp_path / "spool").exists()


def test_what_is_put_aside_overwrites_nothing_that_is_there(tmp_path: Path) -> None:
    path = left(tmp_path, "gpu-1")
    (tmp_path / "refused").mkdir()
    there = tmp_path / "refused" / f"{path.parent.name}-{path.name}"
    there.write_bytes(b"there before")
    path.write_bytes(b"no spool")
    assert taken_in(tmp_path) == ([], 1)
    assert {each.read_bytes() for each in (tmp_path / "refused").iterdir()} == {b"there before", b"no spool"}
