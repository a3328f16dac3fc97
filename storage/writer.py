"""The writer: one supervised thread with one connection, which commits what is queued and wakes who waits."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection

from storage import gateways
from storage.batch import Batches
from storage.database import Database, is_trouble
from storage.errors import CannotRecord, Unavailable
from storage.inbox import Inbox
from storage.jobs import Begin, Command, Finish, Job, Record, deliver, fail
from storage.records import StoreCounts

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
        self._batches = Batches(database)
        self._db: Connection | None = None
        self._in_hand: list[Job] = []
        self._next_beat = 0.0
        self._unable: str | None = None
        self._committed = self._refused = self._dropped_late = self._commits = self._restarts = 0
        self._last_commit_ms: float | None = None
        self._thread = threading.Thread(target=self._supervise, name="storage-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, job: Job) -> None:
        """Raises CannotRecord."""
        if self._closing or not self._thread.is_alive():
            raise CannotRecord("the writer has ended")
        if isinstance(job, Begin) and self._unable is not None:
            raise CannotRecord(f"the database can't be written: {self._unable}")
        self._loop = asyncio.get_running_loop()
        self._inbox.put(job)

    def counts(self) -> StoreCounts:
        return StoreCounts(
            queued=self._inbox.queued,
            queued_bytes=self._inbox.queued_bytes,
            begun=self._inbox.begun,
            finished=self._inbox.finished,
            committed=self._committed,
            refused=self._refused,
            dropped_late=self._dropped_late,
            commits=self._commits,
            last_commit_ms=self._last_commit_ms,
            oldest_queued_ms=self._inbox.oldest_ms,
            writer_alive=self._thread.is_alive(),
            writer_restarts=self._restarts,
            unable=self._unable,
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
                self._disconnect()
                return
            except BaseException:
                _log.exception("the storage writer failed and starts again")
                self._restarts += 1
                self._batches = Batches(self._database)
                self._disconnect()
                time.sleep(_FIRST_PAUSE_S)

    def _work(self) -> None:
        while self._in_hand or not self._inbox.ended:
            self._beat()
            if not self._in_hand:
                self._in_hand = self._inbox.take(max(0.0, self._next_beat - time.monotonic()))
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
                db = self._connection()
                with db.begin():
                    written = self._batches.write(db, jobs)
            except Exception as exc:
                self._batches.forget(job.session_id for job in jobs)
                if is_trouble(exc) and not self._gave_up():
                    self._unable = str(exc.__cause__ or exc)
                    _log.warning("%d rows wait, for the database can't be written: %s", len(jobs), self._unable)
                    self._disconnect()
                    time.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE_S)
                    continue
                if len(jobs) > 1 and not is_trouble(exc):
                    self._record(jobs[: len(jobs) // 2])
                    self._record(jobs[len(jobs) // 2 :])
                else:
                    self._refuse(jobs, exc)
                return
            self._unable = None
            self._last_commit_ms = (time.monotonic() - started) * 1e3
            self._commits += 1
            self._committed += written.finished
            self._dropped_late += written.dropped_late
            self._settle(jobs, [partial(deliver, job.waiter, None) for job in jobs if isinstance(job, Finish)])
            return

    def _refuse(self, jobs: Sequence[Record], cause: Exception) -> None:
        self._refused += len(jobs)
        told: list[Callable[[], None]] = []
        for job in jobs:
            _log.error("a row of session %s can't be recorded", job.session_id, exc_info=cause)
            if isinstance(job, Finish):
                error = CannotRecord(f"trace {job.trace.trace_id} can't be recorded: {cause}")
                error.__cause__ = cause
                told.append(partial(fail, job.waiter, error))
        self._settle(jobs, told)

    def _command(self, command: Command[Any]) -> None:
        """Run it in a transaction of its own. Unlike rows it is not tried again: who asked is there to do so."""
        try:
            db = self._connection()
            with db.begin():
                told = command.execute(db)
        except Exception as exc:
            error = exc
            if is_trouble(exc):
                self._disconnect()
                error = Unavailable(f"the database can't be written: {exc.__cause__ or exc}")
                error.__cause__ = exc
            told = partial(fail, command.waiter, error)
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
        if time.monotonic() < self._next_beat:
            return
        self._next_beat = time.monotonic() + _HEARTBEAT_S
        now = datetime.now(UTC)
        try:
            db = self._connection()
            with db.begin():
                gateways.beat(self._database, db, self._gateway_id, self.spool_depth, now)
                if not self._database.exclusive:
                    gateways.interrupt_silent(db, now)
        except Exception as exc:
            if not is_trouble(exc):
                raise
            _log.warning("no heartbeat: %s", exc)
            self._disconnect()

    def _gave_up(self) -> bool:
        return self._gives_up_at is not None and time.monotonic() > self._gives_up_at

    def _connection(self) -> Connection:
        if self._db is None:
            self._db = self._database.write_connection()
        return self._db

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.invalidate()
            self._db.close()
            self._db = None


def _leading_records(jobs: Sequence[Job]) -> list[Record]:
    records: list[Record] = []
    for job in jobs:
        if isinstance(job, Command):
            break
        records.append(job)
    return records
