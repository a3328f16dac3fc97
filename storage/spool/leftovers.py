"""What dead processes left in their sub-folders, taken in to be drained before anything new."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from storage.spool.backlog import Backlog
from storage.spool.entries import is_trace, spooled_at
from storage.spool.folder import SpoolFolder
from storage.spool.frames import HEADER_SIZE, Frame


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
        for segment in folder.segments():
            segments += 1
            end = HEADER_SIZE
            for found in segment.read(HEADER_SIZE):
                end = found.end
                if isinstance(found, Frame):
                    traces += is_trace(found.body)
                    moments.append(spooled_at(found.body))
            segment.durable = end
            backlog.add(segment, folder)
        if not segments:
            backlog.empty(folder)
    backlog.tidy()
    return Leftovers(traces, min(moments, default=None))
