"""The writer's queue: bounded in bytes, filled on the event loop, emptied in the writer's thread without waiting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Final

from storage.errors import CannotRecord
from storage.jobs import Begin, Command, Finish, Job

_BATCH_JOBS: Final = 512
_BATCH_BYTES: Final = 32 * 1024 * 1024
_LINGER_S: Final = 0.02
_BEGIN_SHARE: Final = 0.75
"""Calls begin only while the queue is less full than this, so that those which run can still end."""


class Inbox:
    """`put` belongs to the event loop, `take` and `settle` to the writer; each counter is written by one of the two."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._put = self._put_bytes = 0
        self._settled = self._settled_bytes = 0
        self._oldest: float | None = None
        self.begun = self.finished = 0
        self.ended = False
        """Whether `end` was called and everything before it was taken."""

    @property
    def queued(self) -> int:
        """Jobs that are not settled: those taken and not yet committed as well."""
        return self._put - self._settled

    @property
    def queued_bytes(self) -> int:
        return self._put_bytes - self._settled_bytes

    @property
    def oldest_ms(self) -> float | None:
        """How long the oldest job that was taken has waited; null when nothing waits."""
        oldest = self._oldest
        return (time.monotonic() - oldest) * 1e3 if self.queued and oldest is not None else None

    def put(self, job: Job) -> None:
        """Raises CannotRecord when it is full."""
        share = _BEGIN_SHARE if isinstance(job, Begin) else 1
        if self.queued_bytes + job.size > self._max_bytes * share:
            raise CannotRecord(f"{self.queued_bytes} bytes wait to be written, of at most {self._max_bytes}")
        self._put += 1
        self._put_bytes += job.size
        self.begun += isinstance(job, Begin)
        self.finished += isinstance(job, Finish)
        self._queue.put(job)

    def end(self) -> None:
        """Nothing is put after this."""
        self._queue.put(None)

    def take(self, timeout: float) -> list[Job]:
        """Wait for a first job, then take what is there; the list is empty after `timeout` seconds or at the end.

        Jobs that nobody waits for stay a moment: the end of a short call then makes one row together with its begin.
        """
        taken: list[Job] = []
        size = 0
        urgent = False
        try:
            job = self._queue.get(timeout=timeout)
            while job is not None:
                taken.append(job)
                size += job.size
                urgent = urgent or isinstance(job, Finish | Command)
                if len(taken) >= _BATCH_JOBS or size >= _BATCH_BYTES:
                    break
                patience = 0.0 if urgent else taken[0].queued_at + _LINGER_S - time.monotonic()
                job = self._queue.get(timeout=patience) if patience > 0 else self._queue.get_nowait()
            else:
                self.ended = True
        except Empty:
            pass
        self._oldest = taken[0].queued_at if taken else None
        return taken

    def settle(self, jobs: Sequence[Job]) -> None:
        """They are committed, or never will be."""
        self._settled += len(jobs)
        self._settled_bytes += sum(job.size for job in jobs)
