"""Files stand under their names whole, or not at all."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from gateway.commands.exporting.destination import CannotWrite, Destination
from gateway.commands.remote import BrokenOff


class Bucket(MemoryFileSystem):  # type: ignore[misc]
    """An object store: nothing is moved there, and each name is written in one go."""

    protocol = ("s3", "s3a")

    def __init__(self) -> None:
        super().__init__()
        self.put: list[str] = []

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        self.put.append(rpath)
        super().put_file(lpath, rpath, **options)

    def mv(self, *_: Any, **__: Any) -> None:
        raise AssertionError("moving is copying there")


@pytest.fixture
def memory() -> Iterator[MemoryFileSystem]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


def test_a_file_gets_its_name_at_its_end(tmp_path: Path) -> None:
    destination = Destination.of(str(tmp_path))
    with destination.writing("run=a/part.jsonl") as file:
        file.write(b"half")
        file.flush()
        assert not (tmp_path / "run=a/part.jsonl").exists()
    assert [path.name for path in (tmp_path / "run=a").iterdir()] == ["part.jsonl"]


@pytest.mark.parametrize("url", ["{tmp_path}", "memory://bucket"])
def test_what_fails_leaves_the_older_file_and_nothing_else(tmp_path: Path, url: str, memory: MemoryFileSystem) -> None:
    destination = Destination.of(url.format(tmp_path=tmp_path))
    destination.write("part.jsonl", b"older")
    with pytest.raises(BrokenOff), destination.writing("part.jsonl") as file:  # noqa: PT012
        file.write(b"half")
        raise BrokenOff("no more")
    assert destination.read("part.jsonl") == b"older"
    assert destination.has("*.tmp") is destination.has(".*") is False
    assert destination.read("other.jsonl") is None


def test_an_object_store_gets_each_file_in_one_go(memory: MemoryFileSystem) -> None:
    bucket = Bucket()
    destination = Destination("s3://bucket", bucket, "/bucket")
    destination.write("run=a/part.jsonl", b"whole")
    with pytest.raises(BrokenOff), destination.writing("run=a/part.jsonl"):
        raise BrokenOff("no more")
    assert bucket.put == ["/bucket/run=a/part.jsonl"]
    assert destination.read("run=a/part.jsonl") == b"whole"


def test_why_nothing_can_be_written_is_said(tmp_path: Path, memory: MemoryFileSystem) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CannotWrite, match=r"file: part can't be written: .*Not a directory|File exists"):
        Destination.of(str(tmp_path / "file")).write("part", b"")
    with pytest.raises(CannotWrite, match="nosuch://x can't be written to: Protocol not known: nosuch"):
        Destination.of("nosuch://x")
    with pytest.raises(CannotWrite, match=r"ftp://127\.0\.0\.1:1/x can't be written to: .*refused"):
        Destination.of("ftp://127.0.0.1:1/x")
    with pytest.raises(CannotWrite, match="the destination is empty: name a folder"):
        Destination.of("")

    class Locked(MemoryFileSystem):  # type: ignore[misc]
        def put_file(self, *_: Any, **__: Any) -> None:
            raise RuntimeError("no credentials")

    with pytest.raises(CannotWrite, match="gs://b: part can't be written: no credentials"):
        Destination("gs://b", Locked(), "/b").write("part", b"")


def test_a_full_temporary_folder_is_said(memory: MemoryFileSystem) -> None:
    says = r"memory://b: part is made in .* first, and can't be: .*No space left"
    with pytest.raises(CannotWrite, match=says), Destination.of("memory://b").writing("part"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_one_export_at_a_time_writes_to_a_folder(tmp_path: Path) -> None:
    folder = str(tmp_path / "out")
    with (
        Destination.of(folder).alone(),
        pytest.raises(CannotWrite, match="out: another export is writing there"),
        Destination.of(folder).alone(),
    ):
        pass
    assert not (tmp_path / "out").exists()
    with Destination.of(folder).alone():
        Destination.of(folder).write("part", b"")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["part"]


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(CannotWrite, match=r'pip install "rollout-gateway\[export\]"'):
        Destination.of("memory://x")
