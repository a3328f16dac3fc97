"""What the gateway is at the moment that somebody asks: its queues, its backends, its disks. Read and never counted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from gateway.backends import Backends
from gateway.exchange import Counters
from gateway.sight import names
from gateway.sight.names import Name
from gateway.sight.tally import Sample
from gateway.version import gateway_version
from gateway.weights.gate import Gate
from storage.location import file_of, is_postgres
from storage.records import StoreCounts


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric as it was read."""

    name: Name
    numbers: tuple[Sample, ...]

    def samples(self) -> Iterable[Sample]:
        return self.numbers


class Connections(Protocol):
    """Connections to backends."""

    @property
    def in_use(self) -> int: ...
    @property
    def idle(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Moment:
    """Where to look. None of it waits for anything but `disks`, which asks the file system."""

    store: Callable[[], StoreCounts]
    counters: Counters
    backends: Backends
    gate: Gate
    connections: Callable[[], Connections | None]
    body_bytes: Callable[[], int]
    problems: Callable[[], list[str]]
    stopping: Callable[[], bool]
    places: Mapping[str, Path]
    """Folders that records are written to."""

    def read(self) -> Iterator[Reading]:
        counters = self.counters
        yield _one(names.BUILD, 1, gateway_version())
        yield _one(names.READY, not self.problems())
        yield _one(names.STOPPING, self.stopping())
        yield _one(names.ANSWERED, counters.answered)
        yield _one(names.RECORDED, counters.recorded)
        yield _one(names.IN_FLIGHT, counters.in_flight)
        yield _one(names.BODY_BYTES, self.body_bytes())
        yield from self._of_pauses()
        connections = self.connections()
        if connections is not None:
            used, idle = ("", ("in_use",), connections.in_use), ("", ("idle",), connections.idle)
            yield Reading(names.CONNECTIONS, (used, idle))
        yield from _recording(self.store())
        yield from self._of_backends()

    def disks(self) -> Iterator[Reading]:
        """May wait for a file system: not for the event loop."""
        rooms = [(place, room) for place, folder in self.places.items() if (room := _room(folder)) is not None]
        yield Reading(names.DISK_FREE, tuple(("", (place,), free) for place, (free, _) in rooms))
        yield Reading(names.DISK_SIZE, tuple(("", (place,), size) for place, (_, size) in rooms))

    def _of_pauses(self) -> Iterator[Reading]:
        standing = self.gate.standing
        oldest = min((each.pause.created_at for each in standing), default=None)
        yield _one(names.HELD, sum(each.held for each in standing))
        yield _one(names.PAUSES, len(standing))
        yield _one(names.PAUSED_FOR, 0.0 if oldest is None else (datetime.now(UTC) - oldest).total_seconds())

    def _of_backends(self) -> Iterator[Reading]:
        backends = self.backends.all()
        up = tuple(("", (each.name,), float(self.backends.is_alive(each))) for each in backends)
        yield Reading(names.BACKEND_UP, up)
        yield Reading(names.BACKEND_IN_FLIGHT, tuple(("", (each.name,), each.in_flight) for each in backends))
        told = [(each, each.server or each.settings) for each in backends]
        info = [(each.name, server.engine or "", server.version or "", each.source) for each, server in told]
        yield Reading(names.BACKEND_INFO, tuple(("", labels, 1.0) for labels in info))


def places(database: str, spool: Path) -> dict[str, Path]:
    """Where a gateway writes: its spool, and the folder of a SQLite file."""
    return {"spool": spool} | ({} if is_postgres(database) else {"database": file_of(database).parent})


def _recording(counts: StoreCounts) -> Iterator[Reading]:
    yield _one(names.QUEUED, counts.queued)
    yield _one(names.QUEUED_BYTES, counts.queued_bytes)
    yield _one(names.WRITER_LAG, (counts.oldest_queued_ms or 0.0) / 1e3)
    yield _one(names.WRITER_UP, counts.writer_alive)
    yield _one(names.WRITER_RESTARTS, counts.writer_restarts)
    yield _one(names.COMMITS, counts.commits)
    if counts.last_commit_ms is not None:
        yield _one(names.LAST_COMMIT, counts.last_commit_ms / 1e3)
    yield _one(names.COMMITTED, counts.committed)
    yield _one(names.ROWS_REFUSED, counts.refused)
    yield _one(names.DROPPED_LATE, counts.dropped_late)
    yield _one(names.DATABASE_UP, counts.unable is None)
    yield _one(names.SPOOL_UP, counts.spool_unable is None)
    yield _one(names.SPOOL_DEPTH, counts.spool_depth)
    yield _one(names.SPOOL_BYTES, counts.spool_bytes)
    yield _one(names.SPOOL_AGE, counts.spool_oldest_s or 0.0)
    yield _one(names.SPOOL_REFUSED, counts.spool_refused)


def _one(name: Name, value: float, *labels: str) -> Reading:
    return Reading(name, (("", labels, float(value)),))


def _room(folder: Path) -> tuple[int, int] | None:
    """Free for whoever is not root, and in all; in bytes."""
    with suppress(OSError):
        told = os.statvfs(folder)
        return told.f_bavail * told.f_frsize, told.f_blocks * told.f_frsize
    return None
