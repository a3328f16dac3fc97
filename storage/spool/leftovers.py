"""What dead processes left in their sub-folders, taken in to be drained before anything new."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from storage.errors import CannotOpen
from storage.spool.backlog import Backlog
from storage.spool.entries import START_SIZE, is_trace, spooled_at
from storage.spool.folder import SpoolFolder
from storage.spool.frames import HEADER_SIZE, Frame
from storage.spool.segment import Segment, is_blank


@dataclass(frozen=True, slots=True)
class Leftovers:
    """How many ended traces there are, and when the oldest record was spooled."""

    traces: int = 0
    oldest: float | None = None


def take_in(backlog: Backlog, folders: Iterable[SpoolFolder]) -> Leftovers:
    """Raises CannotOpen for a file that can't be read, and OSError."""
    starts: list[bytes] = []
    for folder in folders:
        segments = 0
        for path in folder.files():
            try:
                segment = _opened(path, backlog)
                if segment is not None:
                    starts += _starts(segment)
            except OSError as exc:
                raise CannotOpen(
                    f"{path} can't be read: {exc.strerror or exc}. Make it readable, or move it out of the spool"
                ) from exc
            if segment is not None:
                segments += 1
                backlog.add(segment, folder)
        if not segments:
            backlog.empty(folder)
    backlog.tidy()
    return Leftovers(sum(map(is_trace, starts)), min(map(spooled_at, starts), default=None))


def _opened(path: Path, backlog: Backlog) -> Segment | None:
    """Nothing is removed but a file that never held anything. Raises OSError."""
    segment = Segment.open(path)
    if segment is None:
        if is_blank(path):
            path.unlink()
        else:
            backlog.keep_unread(path)
    return segment


def _starts(segment: Segment) -> list[bytes]:
    """Of its records, up to the last one; the file ends there from now on. Raises OSError."""
    starts: list[bytes] = []
    end = HEADER_SIZE
    for found in segment.read(HEADER_SIZE):
        end = found.end
        if isinstance(found, Frame):
            starts.append(found.body[:START_SIZE])
    segment.cut(end)
    return starts
