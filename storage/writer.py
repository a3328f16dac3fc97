"""The writer: one supervised thread with one connection, which commits what is queued and wakes who waits."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from storage import gateways
from storage.batch import Batches, Written
from storage.checkpoints import Checkpoints
from storage.database import Database
from storage.errors import CannotRecord, Unavailable
from storage.inbox import Inbox
from storage.jobs import Begin, Command, Finish, Job, Record
from storage.records import StoreCounts
from storage.transactions import Transactions
from storage.waiters import deliver, fail

_log: Final = logging.getLogger(__name__)
_HEARTBEAT_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0


class Writer:
    """`put`, `counts` and `close` are for the event loop's side; everything private runs in the thread."""

    def __init__(
        self, database: Database, *, gateway_id: str, queue_bytes: int, on_settled: Callable[[Job], None]
    ) -> None:
        """`on_settled` is called on the event loop with each job that is committed, or never will be."""
        self.spool_depth = 0
        self._database = database
        self._gateway_id = gateway_id
        self._on_settled = on_settled
        self._inbox = Inbox(queue_bytes)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        self._gives_up_at: float | None = None
        self._transactions = Transactions(database)
        self._batches = Batches(database)
        self._checkpoints = Checkpoints(database)
        self._in_hand: list[Job] = []
        self._last_beat = float("-inf")
        self._finished = self._refused = self._dropped_late = self._commits = self._restarts = 0
        self._last_commit_ms: float | None = None
        self._thread = threading.Thread(target=self._supervise, name="storage-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, job: Job) -> None:
        """Raises CannotRecord."""
        if self._closing or not self._thread.is_alive():
            raise CannotRecord("the writer has ended")
        if isinstance(job, Begin) and self._transactions.unable is not None:
            raise CannotRecord(f"the database can't be written: {self._transactions.unable}")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._inbox.put(job)

    def counts(self) -> StoreCounts:
        return StoreCounts(
            queued=self._inbox.queued,
            queued_bytes=self._inbox.queued_bytes,
            begun=self._inbox.begun,
            finished=self._inbox.finished,
            committed=self._finished,
            refused=self._refused,
            dropped_late=self._dropped_late,
            commits=self._commits,
            last_commit_ms=self._last_commit_ms,
            oldest_queued_ms=self._inbox.oldest_ms,
            writer_alive=self._thread.is_alive(),
            writer_restarts=self._restarts,
            unable=self._transactions.unable,
        )

    def close(self, timeout: float) -> None:
        """Write what is queued, and after `timeout` seconds give up what can't be. Blocks: not for the event loop."""
        if not self._closing:
            self._closing = True
            self._gives_up_at = time.monotonic() + timeout
            self._inbox.end()
        self._thread.join()

    def _supervise(self) -> None:
        """What ends the work does not end the writer: it starts again, with what it had in hand."""
        while True:
            try:
                self._work()
                self._transactions.disconnect()
                self._checkpoints.close()
                return
            except BaseException:
                _log.exception("the storage writer failed and starts again")
                self._restarts += 1
                self._batches = Batches(self._database)
                self._transactions.disconnect()
                time.sleep(_FIRST_PAUSE_S)

    def _work(self) -> None:
        while self._in_hand or not self._inbox.ended:
            if self._until_next_beat() <= 0:
                self._beat()
            if not self._in_hand:
                self._in_hand = self._inbox.take(max(0.0, self._until_next_beat()))
            while self._in_hand:
                first = self._in_hand[0]
                if isinstance(first, Command):
                    self._command(first)
                else:
                    self._record(_leading_records(self._in_hand))

    def _record(self, jobs: Sequence[Record]) -> None:
        """Commit them in one transaction. What the database refuses is found by halves, and fails alone."""
        pause = _FIRST_PAUSE_S
        while True:
            started = time.monotonic()
            try:
                written = self._transactions.run(partial(self._batches.write, jobs=jobs))
            except Exception as exc:
                self._batches.forget(job.session_id for job in jobs)
                if isinstance(exc, Unavailable) and not self._gives_up():
                    time.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE_S)
                elif isinstance(exc, Unavailable) or len(jobs) == 1:
                    return self._refuse(jobs, exc)
                else:
                    self._record(jobs[: len(jobs) // 2])
                    return self._record(jobs[len(jobs) // 2 :])
            else:
                self._last_commit_ms = (time.monotonic() - started) * 1e3
                return self._committed(jobs, written)

    def _committed(self, jobs: Sequence[Record], written: Written) -> None:
        self._commits += 1
        self._finished += written.finished
        self._dropped_late += written.dropped_late
        self._settle(
            jobs, [partial(deliver, job.waiter, None) for job in jobs if isinstance(job, Finish) and job.waiter]
        )
        self._checkpoints.committed(sum(job.size for job in jobs))

    def _refuse(self, jobs: Sequence[Record], cause: Exception) -> None:
        self._refused += len(jobs)
        told: list[Callable[[], None]] = []
        for job in jobs:
            _log.error("a row of session %s can't be recorded", job.session_id, exc_info=cause)
            if isinstance(job, Finish) and job.waiter:
                error = CannotRecord(f"trace {job.trace.trace_id} can't be recorded: {cause}")
                error.__cause__ = cause
                told.append(partial(fail, job.waiter, error))
        self._settle(jobs, told)

    def _command(self, command: Command[Any]) -> None:
        """Run it in a transaction of its own. Unlike rows it is not tried again: who asked is there to do so."""
        try:
            told = self._transactions.run(command.execute)
        except Exception as exc:
            told = partial(fail, command.waiter, exc)
        self._batches.forget([command.session_id])
        self._settle([command], [told])

    def _settle(self, jobs: Sequence[Job], told: Sequence[Callable[[], None]]) -> None:
        """Wake everyone who waits for one of these with one call."""
        del self._in_hand[: len(jobs)]
        self._inbox.settle(jobs)

        def tell() -> None:
            for job in jobs:
                self._on_settled(job)
            for call in told:
                call()

        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(tell)
        except RuntimeError:  # The loop is closed, so nobody waits.
            _log.debug("%d jobs settled after their event loop had closed", len(jobs))

    def _beat(self) -> None:
        self._last_beat = time.monotonic()
        try:
            self._transactions.run(partial(gateways.live, self._database, self._gateway_id, self.spool_depth))
        except Unavailable:
            _log.debug("no heartbeat", exc_info=True)

    def _until_next_beat(self) -> float:
        """Seconds. Sooner in trouble, for a heartbeat also shows whether the database can be written again."""
        pause = _HEARTBEAT_S if self._transactions.unable is None else _LONGEST_PAUSE_S
        return self._last_beat + pause - time.monotonic()

    def _gives_up(self) -> bool:
        return self._gives_up_at is not None and time.monotonic() > self._gives_up_at


def _leading_records(jobs: Sequence[Job]) -> list[Record]:
    records: list[Record] = []
    for job in jobs:
        if isinstance(job, Command):
            break
        records.append(job)
    return records
