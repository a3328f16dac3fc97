"""The writer: one supervised thread with one connection, which commits what is queued and wakes who waits.

What the database does not take it gives back, for the spool; and drains the spool once the database takes it again.
"""

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
from storage.jobs import Command, Finish, Job, Record
from storage.records import StoreCounts
from storage.spool.backlog import Entry
from storage.spool.drain import Drain
from storage.spool.spool import Spool
from storage.transactions import Transactions
from storage.waiters import deliver, fail

_log: Final = logging.getLogger(__name__)
_HEARTBEAT_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_LEAVES_S: Final = 2.0
"""What a transaction that is under way when time is up gets on top."""


class Writer:
    """`put`, `nudge`, `counts` and `close` are for the event loop's side; everything private runs in the thread."""

    def __init__(
        self,
        database: Database,
        *,
        gateway_id: str,
        queue_bytes: int,
        spool: Spool,
        on_settled: Callable[[Job], None],
        on_unwritten: Callable[[Record], None],
        on_drained: Callable[[Sequence[Entry]], None],
    ) -> None:
        """Each is called on the event loop.

        `on_settled` with a job that is committed, or never will be; `on_unwritten` with one that the database did not
        take; `on_drained` with what came out of the spool.
        """
        self._database = database
        self._gateway_id = gateway_id
        self._spool = spool
        self._on_settled = on_settled
        self._on_unwritten = on_unwritten
        self._on_drained = on_drained
        self._inbox = Inbox(queue_bytes)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        self._gives_up_at = float("inf")
        self._transactions = Transactions(database)
        self._batches = Batches(database)
        self._drain = self._new_drain()
        self._checkpoints = Checkpoints(database)
        self._in_hand: list[Job] = []
        self._last_beat = float("-inf")
        self._drains_from = float("-inf")
        self._finished = self._refused = self._dropped_late = self._commits = self._restarts = 0
        self._last_commit_ms: float | None = None
        self._thread = threading.Thread(target=self._run, name="storage-writer", daemon=True)
        self.alive = False
        """Whether its thread works. Each call asks several times, for which the thread itself takes too long."""

    def start(self) -> None:
        self.alive = True
        self._thread.start()

    @property
    def unable(self) -> str | None:
        """Why the database can't be written at the moment; null when it can."""
        return self._transactions.unable

    def put(self, job: Job) -> None:
        """Raises CannotRecord."""
        if self._closing or not self.alive:
            raise CannotRecord("the writer has ended")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._inbox.put(job)

    def nudge(self) -> None:
        """There is something to drain."""
        self._inbox.nudge()

    def counts(self, *, begun: int, finished: int) -> StoreCounts:
        spool = self._spool
        return StoreCounts(
            queued=self._inbox.queued,
            queued_bytes=self._inbox.queued_bytes,
            begun=begun,
            finished=finished,
            committed=self._finished,
            refused=self._refused,
            dropped_late=self._dropped_late,
            commits=self._commits,
            last_commit_ms=self._last_commit_ms,
            oldest_queued_ms=self._inbox.oldest_ms,
            writer_alive=self.alive,
            writer_restarts=self._restarts,
            unable=self.unable,
            spool_depth=spool.depth,
            spool_bytes=spool.backlog.bytes,
            spool_oldest_s=spool.oldest_s,
            spool_refused=spool.backlog.refused,
            spool_unable=spool.unable,
        )

    def close(self, timeout: float) -> bool:
        """Write what is queued and drain what is spooled, for `timeout` seconds. Blocks: not for the event loop.

        False: the database has still not answered then, and the thread is left to it.
        """
        if not self._closing:
            self._closing = True
            self._gives_up_at = time.monotonic() + timeout
            self._inbox.end()
        self._thread.join(timeout + _LEAVES_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._supervise()
        finally:
            self.alive = False

    def _supervise(self) -> None:
        """What ends the work does not end the writer: it starts again, with what it had in hand."""
        while True:
            try:
                self._work()
                self._say_goodbye()
                self._transactions.disconnect()
                self._checkpoints.close()
                return
            except BaseException:
                _log.exception("the storage writer failed and starts again")
                self._restarts += 1
                self._batches = Batches(self._database)
                self._drain = self._new_drain()
                self._transactions.disconnect()
                time.sleep(_FIRST_PAUSE_S)

    def _new_drain(self) -> Drain:
        return Drain(
            self._spool.backlog, run=self._transactions.run, batches=self._batches, on_drained=self._out_of_the_spool
        )

    def _work(self) -> None:
        while self._in_hand or not self._inbox.ended or self._drains():
            if self._until_next_beat() <= 0:
                self._beat()
            if not self._in_hand:
                self._in_hand = self._inbox.take(0 if self._drains() else max(0.0, self._until_next_beat()))
            while self._in_hand:
                first = self._in_hand[0]
                if isinstance(first, Command):
                    self._command(first)
                else:
                    self._record(_leading_records(self._in_hand))
            if self._drains():
                self._drain_some()

    def _record(self, jobs: Sequence[Record]) -> None:
        """Commit them in one transaction. What the database refuses is found by halves, and fails alone."""
        wanted = [job for job in jobs if not job.withdrawn]
        if not wanted:
            return self._settle(jobs, [])
        started = time.monotonic()
        try:
            if self._transactions.has_failed_since(jobs[-1].queued_at):
                raise Unavailable(f"the database can't be written: {self._transactions.unable}")
            written = self._transactions.run(partial(self._batches.write, jobs=wanted))
        except Exception as exc:
            self._batches.forget(job.session_id for job in wanted)
            if isinstance(exc, Unavailable):
                self._give_back(jobs)
            elif len(jobs) == 1:
                self._refuse(jobs, exc)
            else:
                self._record(jobs[: len(jobs) // 2])
                self._record(jobs[len(jobs) // 2 :])
        else:
            self._last_commit_ms = (time.monotonic() - started) * 1e3
            self._committed(jobs, written)

    def _drain_some(self) -> None:
        try:
            self._drain.step()
        except Unavailable:
            _log.debug("the spool is drained later", exc_info=True)
        except OSError:
            _log.exception("the spool can't be read; it is tried again")
            self._drains_from = time.monotonic() + _LONGEST_PAUSE_S
        else:
            if not self._spool.pending:
                self._beat()  # Others learn it at once.

    def _drains(self) -> bool:
        """Whether there is something to drain, and a database for it."""
        now = time.monotonic()
        may = self._transactions.may_try and self._drains_from <= now < self._gives_up_at
        return may and self._spool.backlog.readable

    def _out_of_the_spool(self, entries: Sequence[Entry], written: Written | None) -> None:
        self._spool.drained(entries)
        if written is None:
            self._refused += 1
        else:
            self._commits += 1
            self._finished += written.finished
            self._dropped_late += written.dropped_late
        self._checkpoints.committed(sum(entry.size for entry in entries))
        self._call_soon(lambda: self._on_drained(entries))

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

    def _give_back(self, jobs: Sequence[Record]) -> None:
        """The spool may have them."""
        del self._in_hand[: len(jobs)]
        self._inbox.settle(jobs)

        def tell() -> None:
            for job in jobs:
                if not job.withdrawn:
                    self._on_unwritten(job)

        self._call_soon(tell)

    def _command(self, command: Command[Any]) -> None:
        """Run it in a transaction of its own. Unlike rows it is not tried again: who asked is there to do so.

        One whose asker was told that it failed is not done behind his back.
        """
        if command.waiter.done():
            self._settle([command], [])
            return
        try:
            if self._transactions.has_failed_since(command.queued_at):
                raise Unavailable(f"the database can't be written: {self._transactions.unable}")
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

        self._call_soon(tell)

    def _call_soon(self, tell: Callable[[], None]) -> None:
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(tell)
        except RuntimeError:  # The loop is closed, so nobody waits.
            _log.debug("something settled after its event loop had closed")

    def _beat(self) -> None:
        self._last_beat = time.monotonic()
        try:
            spool = self._spool
            live = partial(gateways.live, self._database, self._gateway_id, spool.depth, spool.oldest_s)
            # While something waits, that comes in proves more: a heartbeat needs one small table alone.
            self._transactions.run(live, proves=not spool.pending)
        except Unavailable:
            _log.debug("no heartbeat", exc_info=True)

    def _say_goodbye(self) -> None:
        """Nobody is to wait for what a gateway that ended in order could still have."""
        if self._spool.pending:
            return self._beat()
        try:
            self._transactions.run(partial(gateways.forget, gateway_id=self._gateway_id))
        except Unavailable:
            _log.debug("no goodbye", exc_info=True)

    def _until_next_beat(self) -> float:
        """Seconds. Sooner in trouble, for a heartbeat also shows whether the database can be written again."""
        pause = _HEARTBEAT_S if self._transactions.unable is None else _LONGEST_PAUSE_S
        return self._last_beat + pause - time.monotonic()


def _leading_records(jobs: Sequence[Job]) -> list[Record]:
    records: list[Record] = []
    for job in jobs:
        if isinstance(job, Command):
            break
        records.append(job)
    return records
