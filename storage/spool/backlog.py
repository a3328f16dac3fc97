"""What is spooled and not yet in the database, read in its order: first what dead processes left, then what is new."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Final

from storage.gateways import INTERRUPTED
from storage.jobs import Begin, Record
from storage.spool.entries import BadEntry, decode_entry, is_trace, spooled_at
from storage.spool.folder import SpoolFolder, refused_folder
from storage.spool.frames import HEADER_SIZE, Damage, Frame
from storage.spool.segment import SUFFIX, Segment, put_aside

_NO_RECORD: Final = (
    "no whole record stands there: it was damaged, or a loss of power tore it before anybody was told that it is safe"
)
_log: Final = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Part:
    """A segment, and how far it is read and drained."""

    segment: Segment
    left_by: SpoolFolder | None
    """The folder of a process that lives no more."""
    drained_to: int = HEADER_SIZE
    _read_to: int = HEADER_SIZE
    _rest: Iterator[Frame | Damage] | None = None
    _rest_to: int = HEADER_SIZE
    """What was durable when that was read: the file has grown since."""

    @property
    def left(self) -> int:
        """In bytes, not drained."""
        return self.segment.durable - self.drained_to

    def unread(self) -> Iterator[Frame | Damage]:
        """From where it is drained to on. Raises OSError."""
        if self._read_to != self.drained_to:
            self._read_to, self._rest = self.drained_to, None
        while self._rest is not None or self._read_to < self.segment.durable:
            if self._rest is None:
                self._rest_to = self.segment.durable
                self._rest = self.segment.read(self._read_to)
            for found in self._rest:
                self._read_to = found.end
                yield found
            self._rest = None
            if self._read_to < self._rest_to:
                yield Damage(self._read_to, self._rest_to)
                self._read_to = self._rest_to


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A record that was read, and has to be drained. One that can't be read has a reason in the place of its job."""

    job: Record | None
    reason: str | None
    found: Frame | Damage = field(repr=False)
    part: _Part = field(repr=False)

    @property
    def is_trace(self) -> bool:
        return isinstance(self.found, Frame) and is_trace(self.found.body)

    @property
    def size(self) -> int:
        return self.found.end - self.found.start

    @property
    def spooled_at(self) -> float | None:
        """Seconds of the wall clock."""
        return spooled_at(self.found.body) if isinstance(self.found, Frame) else None


class Backlog:
    """`add`, `tidy`, `bytes` and `readable` are for any thread; the rest is for the one that drains."""

    def __init__(self, root: Path) -> None:
        self.refused = 0
        """Records that were put aside, and parts of files that could not be read."""
        self._root = root
        self._parts: deque[_Part] = deque()
        self._emptied: list[SpoolFolder] = []
        self._lock = Lock()

    @property
    def bytes(self) -> int:
        with self._lock:
            return sum(part.left for part in self._parts)

    @property
    def readable(self) -> bool:
        """Whether something waits to be drained, or a dead process's folder to be removed."""
        with self._lock:
            return bool(self._emptied) or any(part.left for part in self._parts)

    def add(self, segment: Segment, left_by: SpoolFolder | None = None) -> None:
        with self._lock:
            self._parts.append(_Part(segment, left_by))

    def read(self, most: int, most_bytes: int) -> list[Entry]:
        """The next that are not drained, in their order. Raises OSError."""
        entries: list[Entry] = []
        size = 0
        with self._lock:
            parts = tuple(self._parts)
        for part in parts:
            for found in part.unread():
                entry = _entry(part, found)
                entries.append(entry)
                size += 0 if entry.job is None else entry.job.size
                if len(entries) >= most or size >= most_bytes:
                    return entries
        return entries

    def drained(self, entries: Sequence[Entry]) -> None:
        """They are committed, or will never be."""
        for entry in entries:
            if entry.reason is not None:
                self._keep(entry, entry.reason)
            entry.part.drained_to = entry.found.end
        self.tidy()

    def put_aside(self, entry: Entry, cause: Exception) -> None:
        """Keep what no database takes where a person finds it. `drained` is still to be called."""
        assert isinstance(entry.found, Frame)
        source = entry.part.segment.path
        try:
            refused = refused_folder(self._root)
            if source.parent == refused:
                path, entry.part.segment.damaged = source, True
            else:
                path = refused / f"{source.parent.name}-{source.stem}-{entry.found.start:012}{SUFFIX}"
                Segment.write(path, entry.found.body)
        except FileExistsError:  # By a process that was killed before it had told.
            return
        except OSError as exc:
            self._keep(entry, f"{cause}; and it can't be put aside: {exc}")
            return
        self.refused += 1
        _log.error("a spooled record can't be recorded, and is kept as %s", path, exc_info=cause)

    def tidy(self) -> None:
        """Remove what is sealed and drained."""
        with self._lock:
            while self._parts and self._parts[0].segment.sealed and not self._parts[0].left:
                part = self._parts.popleft()
                self._remove(part.segment)
                if part.left_by is not None and not any(other.left_by is part.left_by for other in self._parts):
                    self._emptied.append(part.left_by)

    def emptied(self) -> list[SpoolFolder]:
        """Those of dead processes in which nothing is left; each is told once."""
        with self._lock:
            told, self._emptied = self._emptied, []
        return told

    def empty(self, folder: SpoolFolder) -> None:
        """One that a process left with nothing in it."""
        with self._lock:
            self._emptied.append(folder)

    def keep_unread(self, path: Path) -> None:
        """A file with a header that is none of this version's. Raises OSError."""
        self.refused += 1
        aside = put_aside(path, refused_folder(self._root))
        _log.error("%s is no spool file of this version, or its header is damaged, so it is kept as %s", path, aside)

    def _keep(self, entry: Entry, reason: str) -> None:
        segment = entry.part.segment
        segment.damaged = True
        self.refused += 1
        place = f"bytes {entry.found.start} to {entry.found.end} of {segment.path}"
        _log.error("%s can't be read, so the file is kept: %s", place, reason)

    def _remove(self, segment: Segment) -> None:
        try:
            if segment.damaged:
                segment.put_aside(refused_folder(self._root))
            else:
                segment.remove()
        except OSError:
            _log.exception("%s is drained and can't be removed; it will be drained again", segment.path)


def _entry(part: _Part, found: Frame | Damage) -> Entry:
    if isinstance(found, Damage):
        return Entry(None, _NO_RECORD, found, part)
    try:
        job = decode_entry(found.body)
    except BadEntry as exc:
        return Entry(None, str(exc), found, part)
    if part.left_by is not None and isinstance(job, Begin):
        # Its end did not come; or stands further behind, and takes the place of this.
        job.trace = replace(job.trace, status="interrupted", fidelity_reason=INTERRUPTED)
    return Entry(job, None, found, part)
