from __future__ import annotations

import os
import resource
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage.errors import CannotRecord
from storage.jobs import Finish, Record
from storage.spool.appender import Appender, Told
from storage.spool.backlog import Backlog
from storage.spool.folder import Owner, SpoolFolder
from storage.spool.frames import HEADER_SIZE, Frame
from storage.spool.segment import Segment
from tests.storage.examples import call


class Listening:
    """What the appender has told, by group; it can be made to wait in the middle of telling."""

    def __init__(self) -> None:
        self.groups: list[Told] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self._heard = threading.Condition()

    def __call__(self, told: Told) -> None:
        with self._heard:
            self.groups.append(told)
            self._heard.notify()
        assert self.goes_on.wait(20)

    def wait_for(self, count: int) -> list[tuple[Record, CannotRecord | None]]:
        with self._heard:
            assert self._heard.wait_for(lambda: sum(map(len, self.groups)) >= count, 20)
        return [each for group in self.groups for each in group]


@pytest.fixture
def backlog(tmp_path: Path) -> Backlog:
    return Backlog(tmp_path)


@contextmanager
def appending(
    tmp_path: Path, backlog: Backlog, heard: Callable[[Told], None], size: int = 1 << 16
) -> Iterator[Appender]:
    folder = SpoolFolder.create(tmp_path / "spool", Owner("gateway-1", "a.db"))
    appender = Appender(folder, backlog, segment_bytes=size, to_disk=True, on_appended=heard)
    try:
        yield appender
    finally:
        if isinstance(heard, Listening):
            heard.goes_on.set()
        appender.close()


def ended(body: bytes = b"{}") -> Finish:
    return Finish(100, call("s", body=body), None)


def test_those_who_wait_at_the_same_time_share_an_fsync(tmp_path: Path, backlog: Backlog) -> None:
    heard = Listening()
    with appending(tmp_path, backlog, heard) as appender:
        heard.goes_on.clear()
        jobs = [ended() for _ in range(101)]
        appender.put(jobs[0])
        heard.wait_for(1)
        for job in jobs[1:]:
            appender.put(job)
        heard.goes_on.set()
        assert heard.wait_for(101) == [(job, None) for job in jobs]
        assert [len(group) for group in heard.groups] == [1, 100]
        assert len(backlog.read(1000, 1 << 20)) == 101


class PowerCut:
    """Listens as the appender tells, and looks each time what a loss of power would have left of the spool's files."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[int] = []
        """How many by then, each time."""
        self.left: list[int] = []
        """How many of all would have been there."""
        self._synced: dict[Path, bytes] = {}
        self._folder = folder
        monkeypatch.setattr(os, "fdatasync", self._sync)

    def _sync(self, file: int) -> None:
        self._synced[Path(f"/proc/self/fd/{file}").readlink()] = os.pread(file, os.fstat(file).st_size, 0)

    def __call__(self, told: Told) -> None:
        self.told.append(sum(self.told[-1:]) + len(told))
        found = 0
        for data in self._synced.values():
            left = self._folder / "left.spool"
            left.write_bytes(data)
            segment = Segment.open(left)
            assert segment is not None
            found += sum(isinstance(each, Frame) for each in segment.read(HEADER_SIZE))
            segment.close()
        self.left.append(found)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for a file's name")
def test_what_is_told_as_recorded_outlives_a_loss_of_power(
    tmp_path: Path, backlog: Backlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = PowerCut(tmp_path, monkeypatch)
    with appending(tmp_path, backlog, cut, size=8192) as appender:
        for number in range(60):  # Over several files, in groups of whatever size.
            appender.put(ended(bytes([number]) * 300))
            if number % 7 == 0:
                time.sleep(0.005)
    assert cut.told[-1] == 60
    assert len(cut.told) > 1
    # What is not told yet may be there too.
    assert all(told <= left for told, left in zip(cut.told, cut.left, strict=True))


def test_files_follow_each_other_and_one_that_is_too_large_has_its_own(tmp_path: Path, backlog: Backlog) -> None:
    heard = Listening()
    with appending(tmp_path, backlog, heard, size=8192) as appender:
        bodies = [bytes([number]) * 300 for number in range(40)]
        large = bytes(range(256)) * 40 + b"".join(number.to_bytes(4, "big") for number in range(9000))
        for body in (*bodies[:20], large, *bodies[20:]):
            appender.put(ended(body))
        heard.wait_for(41)
        entries = backlog.read(1000, 1 << 30)
        found = [entry.job.trace.request.body for entry in entries if isinstance(entry.job, Finish)]
        assert found == [*bodies[:20], large, *bodies[20:]]
        assert len(list((tmp_path / "spool").glob("*/*.spool"))) > 3
        backlog.drained(entries)
    assert not (tmp_path / "spool").exists()


def test_without_room_for_another_file_there_is_still_room_in_the_reserve(tmp_path: Path, backlog: Backlog) -> None:
    heard = Listening()
    with appending(tmp_path, backlog, heard, size=32 * 1024) as appender:
        assert appender.unable is None
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 1024, hard))
        try:
            appender.put(ended())
            assert heard.wait_for(1)[0][1] is None
            for _ in range(200):
                appender.put(ended(b"".join(number.to_bytes(4, "big") for number in range(300))))
            refusals = [refusal for _, refusal in heard.wait_for(201)]
            assert appender.unable == "File too large"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        last = refusals.index(next(refusal for refusal in refusals if refusal is not None))
        assert last > 5
        assert all(isinstance(refusal, CannotRecord) for refusal in refusals[last:])
        assert len(backlog.read(1000, 1 << 30)) == last
        appender.put(ended())
        assert heard.wait_for(202)[-1][1] is None
        until = time.monotonic() + 20
        while appender.unable is not None and time.monotonic() < until:
            time.sleep(0.01)
        assert appender.unable is None


def frames_on_disk(spool: Path, files: int) -> int:
    """What a gateway that starts now would find, once so many files are made."""
    until = time.monotonic() + 20
    while True:
        segments = [segment for path in spool.glob("*/*.spool") if (segment := Segment.open(path)) is not None]
        count = sum(isinstance(found, Frame) for each in segments for found in each.read(HEADER_SIZE))
        for each in segments:
            each.close()
        if len(segments) == files or time.monotonic() > until:
            return count
        time.sleep(0.01)


def test_a_folder_that_is_removed_is_made_anew_and_has_what_is_told_as_safe_from_then_on(
    tmp_path: Path, backlog: Backlog, caplog: pytest.LogCaptureFixture
) -> None:
    heard, spool = Listening(), tmp_path / "spool"
    with appending(tmp_path, backlog, heard) as appender:
        for count in range(1, 4):  # First the reserve alone is there to be removed, then a file in use.
            shutil.rmtree(spool)
            appender.put(ended())
            assert heard.wait_for(count)[-1][1] is None
            assert frames_on_disk(spool, files=2) == 1
        (folder,) = spool.iterdir()
        assert SpoolFolder.adopt(folder) is None
        assert "was removed, and is made anew" in caplog.text
        entries = backlog.read(10, 1 << 20)
        assert len(entries) == 3
        backlog.drained(entries)
    assert not spool.exists()


def test_a_folder_that_is_removed_while_nothing_happens_is_back_after_some_seconds(
    tmp_path: Path, backlog: Backlog
) -> None:
    with appending(tmp_path, backlog, Listening()) as appender:
        shutil.rmtree(tmp_path / "spool")
        until = time.monotonic() + 20
        while not (made := list((tmp_path / "spool").glob("*/*.spool"))) and time.monotonic() < until:
            time.sleep(0.05)
        assert made
        assert appender.unable is None


def test_what_nothing_could_store_fails_alone(tmp_path: Path, backlog: Backlog) -> None:
    heard = Listening()
    with appending(tmp_path, backlog, heard) as appender:
        for job in (ended(), Finish(100, call("s", metadata={"not": object()}), None), ended()):
            appender.put(job)
        assert sorted(refusal is None for _, refusal in heard.wait_for(3)) == [False, True, True]
        assert len(backlog.read(10, 1 << 20)) == 2


class Failing:
    """In the place of a trace: whoever encodes it is met by this."""

    session_id = "s"
    trace_id = "failing"

    def __init__(self, failure: type[BaseException]) -> None:
        self._failure = failure

    def __getattr__(self, name: str) -> object:
        raise self._failure


@pytest.mark.parametrize(("failure", "safe"), [(MemoryError, 3), (SystemExit, 1)])
def test_whatever_befalls_one_job_everybody_is_told_and_the_next_is_taken(
    tmp_path: Path, backlog: Backlog, failure: type[BaseException], safe: int
) -> None:
    heard = Listening()
    with appending(tmp_path, backlog, heard) as appender:
        heard.goes_on.clear()
        appender.put(ended())
        heard.wait_for(1)
        for job in (ended(), Finish(100, Failing(failure), None), ended()):  # type: ignore[arg-type]
            appender.put(job)
        heard.goes_on.set()
        refusals = [refusal for _, refusal in heard.wait_for(4)]
        assert (len(refusals), refusals.count(None)) == (4, safe)
        appender.put(ended())
        assert heard.wait_for(5)[4][1] is None
        assert len(backlog.read(10, 1 << 20)) == safe + 1
