"""What is read of a spool that is being filled."""

from __future__ import annotations

from pathlib import Path

from storage.jobs import Pin
from storage.spool.backlog import Backlog, Entry
from storage.spool.entries import EntryEncoder
from storage.spool.segment import Segment


def _append(segment: Segment, *names: str) -> None:
    encode = EntryEncoder().encode
    for name in names:
        segment.append(segment.framed(encode(Pin(1024, "session", name), 1.0)))
    segment.sync(to_disk=False)


def _names(entries: list[Entry]) -> list[str | None]:
    return [entry.job.backend if isinstance(entry.job, Pin) else entry.reason for entry in entries]


def test_what_is_appended_between_two_reads_is_read_and_not_taken_for_damage(tmp_path: Path) -> None:
    backlog, segment = Backlog(tmp_path), Segment.create(tmp_path / "000001.spool", 1 << 20)
    backlog.add(segment)
    _append(segment, "a", "b", "c")
    first = backlog.read(2, 1 << 20)
    backlog.drained(first)
    _append(segment, "d", "e")
    rest = backlog.read(100, 1 << 20)
    backlog.drained(rest)
    assert (_names(first), _names(rest)) == (["a", "b"], ["c", "d", "e"])
    assert (backlog.refused, backlog.bytes) == (0, 0)
    segment.close()
