"""Where a record goes: to the writer, or into the spool while the database does not take it; and who waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from adapters.schema import Session, Trace
from storage.database import Database
from storage.durability import Durability
from storage.errors import CannotRecord, NotCommitted, QueueFull
from storage.jobs import Begin, Command, Finish, Job, Pin, Record, begin_size, finish_size
from storage.overlay import Overlay
from storage.records import StoreCounts
from storage.spool.backlog import Entry
from storage.spool.folder import Owner
from storage.spool.spool import Spool
from storage.waiters import deliver, fail, new_waiter
from storage.writer import Writer

_log: Final = logging.getLogger(__name__)
_PIN_BYTES: Final = 1024
_SPOOL_WAITS_S: Final = 10.0
_CLOSE_WAITS_S: Final = 10.0


class Recording:
    """For one event loop.

    While the spool has anything, all that is new goes behind it, so that a session's records stay in their order
    whichever way they go.
    """

    def __init__(
        self,
        database: Database,
        spool: Path,
        overlay: Overlay,
        *,
        gateway_id: str,
        durability: Durability,
        queue_bytes: int,
    ) -> None:
        """Raises CannotOpen where there can be no spool."""
        self._overlay = overlay
        self._spool = Spool.open(
            spool,
            Owner(gateway_id, database.name_at(spool)),
            takes_unowned=database.exclusive and spool == database.spool,
            durability=durability,
            on_spooled=self._spooled,
            on_readable=self._readable,
        )
        self._writer = Writer(
            database,
            gateway_id=gateway_id,
            queue_bytes=queue_bytes,
            spool=self._spool,
            on_settled=self._settled,
            on_unwritten=self._unwritten,
            on_drained=self._drained,
        )
        self._begun = self._finished = 0
        self._closing = False

    def start(self) -> None:
        self._writer.start()

    @property
    def all_written(self) -> bool:
        """Whether the database takes what comes, and has all that came before."""
        return not self._spool.pending and self._writer.unable is None

    @property
    def spool_folder(self) -> Path:
        return self._spool.folder

    def begin(self, trace: Trace, session: Session | None) -> None:
        """Raises CannotRecord."""
        self._put(Begin(begin_size(trace), trace, session))
        self._begun += 1

    async def finish(self, trace: Trace, patience: float) -> None:
        """Returns when it is committed, or safe in the spool, which gets it after so many seconds.

        Raises CannotRecord, NotCommitted.
        """
        waiter: asyncio.Future[None] = new_waiter()
        job = Finish(finish_size(trace), trace, waiter, self._overlay.queued(trace.session_id))
        if self._put(job):
            job.timer = asyncio.get_running_loop().call_later(patience, self._overdue, job)
        self._finished += 1
        await waiter  # Of whoever goes away the trace is recorded all the same.

    def pin(self, session_id: str, backend: str, instead_of: str | None) -> None:
        """Raises CannotRecord."""
        self._put(Pin(_PIN_BYTES, session_id, backend, instead_of))

    def command(self, job: Command[Any]) -> None:
        """It is the database's alone. Raises CannotRecord."""
        self._writer.put(job)

    def unable(self) -> str | None:
        """Why calls can't be recorded at the moment, neither in the database nor in the spool; null when they can."""
        if self._spool.unable is None or self._is_direct():
            return None
        database = self._writer.unable or "what is spooled comes first"
        return f"the database can't be written ({database}), nor the spool ({self._spool.unable})"

    def counts(self) -> StoreCounts:
        return self._writer.counts(begun=self._begun, finished=self._finished)

    async def close(self) -> bool:
        """Write everything that came, into the spool if need be. False: a write hangs, and the database is in use."""
        self._closing = True
        answered = await asyncio.to_thread(self._writer.close, _CLOSE_WAITS_S)
        await asyncio.to_thread(self._spool.close)
        return answered

    def _is_direct(self) -> bool:
        return self.all_written and self._writer.alive

    def _put(self, job: Record) -> bool:
        """Whether the writer has it, rather than the spool. Raises CannotRecord."""
        if self._closing:
            raise CannotRecord("the store has ended")
        self._overlay.add(job)
        try:
            if self._is_direct():
                with suppress(QueueFull):
                    self._writer.put(job)
                    return True
            self._to_spool(job)
        except CannotRecord:
            self._overlay.remove(job)
            raise
        return False

    def _to_spool(self, job: Record) -> None:
        """Raises CannotRecord."""
        self._spool.put(job)
        if isinstance(job, Finish) and job.waiter is not None:
            _stop(job)
            late = NotCommitted("neither the database nor the spool has taken it in time; they still may")
            job.timer = asyncio.get_running_loop().call_later(_SPOOL_WAITS_S, fail, job.waiter, late)

    def _overdue(self, job: Finish) -> None:
        """The database has had its time; it may still take it, which the drain will see."""
        if not job.settled:
            job.withdrawn = True
            self._unwritten(job)

    def _unwritten(self, job: Record) -> None:
        try:
            self._to_spool(job)
        except CannotRecord as exc:
            self._spooled(job, exc)

    def _settled(self, job: Job) -> None:
        job.settled = True
        _stop(job)
        self._overlay.remove(job)

    def _spooled(self, job: Record, refusal: CannotRecord | None) -> None:
        job.settled = True
        _stop(job)
        if refusal is None:
            self._overlay.spooled(job)
        else:
            self._overlay.remove(job)
            _log.error("not recorded: %s", refusal)
        if isinstance(job, Finish) and job.waiter is not None:
            if refusal is None:
                deliver(job.waiter, None)
            else:
                fail(job.waiter, refusal)

    def _drained(self, entries: Sequence[Entry]) -> None:
        self._overlay.drained(entry.job.session_id for entry in entries if entry.job is not None)

    def _readable(self) -> None:
        self._writer.nudge()


def _stop(job: Job) -> None:
    """Nobody waits for it to be late any more."""
    if isinstance(job, Finish) and job.timer is not None:
        job.timer.cancel()
