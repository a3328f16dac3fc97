"""The writer's queue: bounded in bytes, filled on the event loop, emptied in the writer's thread.

Waking a thread costs more than most jobs do. So what nobody waits for (a call's begin) does not wake the writer, but is
taken along with what somebody does, or when it has waited a moment; and a writer that is at work needs no waking.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from storage.errors import QueueFull
from storage.jobs import Begin, Command, Finish, Job

_BATCH_JOBS: Final = 512
_BATCH_BYTES: Final = 32 * 1024 * 1024
_LINGER_S: Final = 0.05
"""The end of a call that is as short makes one row together with its begin."""
_BEGIN_SHARE: Final = 0.75
"""Calls begin only while the queue is less full than this, so that those which run can still end."""


class Inbox:
    """`put` belongs to the event loop, `take` and `settle` to the writer; each counter is written by one of the two."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._queue: deque[Job | None] = deque()
        self._lingering: list[Job] = []
        """Begins that `take` has seen and left; they come before the queue."""
        self._bell = threading.Lock()
        self._bell.acquire()
        self._rung = False
        self._sleeps = False
        """Whether the writer has nothing to do, and looks into the queue only when it hears the bell."""
        self._nudged = False
        self._put = self._put_bytes = 0
        self._settled = self._settled_bytes = 0
        self._oldest: float | None = None
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
        """Raises QueueFull."""
        share = _BEGIN_SHARE if isinstance(job, Begin) else 1
        if self.queued_bytes + job.size > self._max_bytes * share:
            raise QueueFull(f"{self.queued_bytes} bytes wait to be written, of at most {self._max_bytes}")
        self._put += 1
        self._put_bytes += job.size
        self._queue.append(job)
        if self._sleeps or isinstance(job, Finish | Command):
            self._ring()

    def end(self) -> None:
        """Nothing is put after this."""
        self._queue.append(None)
        self._ring()

    def nudge(self) -> None:
        """Let `take` come back, though nothing may be queued."""
        self._nudged = True
        self._ring()

    def take(self, timeout: float) -> list[Job]:
        """Wait for jobs and take what is there; the list is empty after `timeout` seconds, a nudge, or at the end."""
        deadline = time.monotonic() + timeout
        was_empty = False
        self._listen(0)
        while not (taken := self._due()) and not (self.ended or self._nudged):
            if (left := deadline - time.monotonic()) <= 0:
                break
            if self._lingering:
                due = self._lingering[0].queued_at + _LINGER_S - time.monotonic()
                self._listen(min(due, left))
            elif was_empty:
                self._sleep(left)
            else:
                # Where one call has just ended the next begins soon, and is found in time without the bell.
                was_empty = True
                self._listen(min(_LINGER_S / 2, left))
        self._nudged = False
        self._oldest = taken[0].queued_at if taken else None
        return taken

    def settle(self, jobs: Sequence[Job]) -> None:
        """They are committed, or never will be."""
        self._settled += len(jobs)
        self._settled_bytes += sum(job.size for job in jobs)

    def _due(self) -> list[Job]:
        """All that is queued in its order, but for young begins behind which nothing of their session is queued."""
        jobs = self._fetch()
        young = time.monotonic() - _LINGER_S
        moved_on: set[str | None] = set()
        due: list[Job] = []
        self._lingering = []
        for job in reversed(jobs):
            waits = isinstance(job, Begin) and job.queued_at > young and job.session_id not in moved_on
            if waits and not self.ended:
                self._lingering.append(job)
            else:
                moved_on.add(job.session_id)
                due.append(job)
        self._lingering.reverse()
        due.reverse()
        return due

    def _fetch(self) -> list[Job]:
        """What lingered, and what came since, as much of that as makes one batch."""
        came: list[Job] = []
        size = 0
        while self._queue and len(came) < _BATCH_JOBS and size < _BATCH_BYTES:
            job = self._queue.popleft()
            if job is None:
                self.ended = True
                break
            came.append(job)
            size += job.size
        return self._lingering + came

    def _ring(self) -> None:
        if not self._rung:
            self._rung = True
            self._bell.release()

    def _listen(self, seconds: float) -> None:
        """Until the bell, and no longer than this."""
        if self._bell.acquire(timeout=max(0.0, seconds)):
            self._rung = False

    def _sleep(self, seconds: float) -> None:
        """As `_listen`, where any job rings."""
        self._sleeps = True
        if not self._queue:  # Else it came too soon to know that it has to ring.
            self._listen(seconds)
        self._sleeps = False
