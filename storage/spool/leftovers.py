"""What dead processes left in their sub-folders, taken in to be drained before anything new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from storage.spool.backlog import Backlog
from storage.spool.entries import is_trace, spooled_at
from storage.spool.folder import SpoolFolder
from storage.spool.frames import HEADER_SIZE, Frame
from storage.spool.segment import Segment, is_blank


@dataclass(frozen=True, slots=True)
class Leftovers:
    """How many ended traces there are, and when the oldest record was spooled."""

    traces: int = 0
    oldest: float | None = None


def take_in(backlog: Backlog, folders: Iterable[SpoolFolder]) -> Leftovers:
    """Raises OSError."""
    traces = 0
    moments: list[float] = []
    for folder in folders:
        segments = 0
        for segment in _segments(folder, backlog):
            segments += 1
            end = HEADER_SIZE
            for found in segment.read(HEADER_SIZE):
                end = found.end
                if isinstance(found, Frame):
                    traces += is_trace(found.body)
                    moments.append(spooled_at(found.body))
            segment.cut(end)
            backlog.add(segment, folder)
        if not segments:
            backlog.empty(folder)
    backlog.tidy()
    return Leftovers(traces, min(moments, default=None))


def _segments(folder: SpoolFolder, backlog: Backlog) -> Iterator[Segment]:
    """Nothing is removed but a file that never held anything."""
    for path in folder.files():
        segment = Segment.open(path)
        if segment is not None:
            yield segment
        elif is_blank(path):
            path.unlink()
        else:
            backlog.keep_unread(path)
