"""The spool: a place on the local disk for what the database does not take at the moment, in order, until it does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from storage.durability import Durability
from storage.errors import CannotOpen, CannotRecord, QueueFull
from storage.jobs import Begin, Finish, Record
from storage.spool.appender import Appender, Told
from storage.spool.backlog import Backlog, Entry
from storage.spool.folder import Owner, SpoolFolder, adopted, room
from storage.spool.leftovers import Leftovers, take_in

SEGMENT_BYTES: Final = 32 * 1024 * 1024
"""Of each file; one of them is always held in reserve for the ends of calls that run when the disk becomes full."""
QUEUE_BYTES: Final = 128 * 1024 * 1024
_HANGS_S: Final = 5.0
_log: Final = logging.getLogger(__name__)


class Spool:
    """Its methods are for one event loop, but for `drained` and `backlog`, which are for the thread that drains."""

    def __init__(
        self,
        folder: SpoolFolder,
        backlog: Backlog,
        leftovers: Leftovers,
        *,
        segment_bytes: int,
        to_disk: bool,
        on_spooled: Callable[[Record, CannotRecord | None], None],
        on_readable: Callable[[], None],
    ) -> None:
        self.backlog = backlog
        self._on_spooled = on_spooled
        self._on_readable = on_readable
        self._loop: asyncio.AbstractEventLoop | None = None
        self._folder = folder.path
        self._waiting = 0
        """Jobs that are put and not told of."""
        self._heard_at = 0.0
        self._traces = leftovers.traces
        self._drained_traces = 0
        self._queued_bytes = 0
        self._oldest = leftovers.oldest
        self._appender = Appender(
            folder, backlog, segment_bytes=segment_bytes, to_disk=to_disk, on_appended=self._appended
        )

    @classmethod
    def open(
        cls,
        root: Path,
        owner: Owner,
        *,
        takes_unowned: bool,
        durability: Durability,
        on_spooled: Callable[[Record, CannotRecord | None], None],
        on_readable: Callable[[], None],
        segment_bytes: int = SEGMENT_BYTES,
    ) -> Spool:
        """Make this process's sub-folder, and take in what dead ones left beside it. Raises CannotOpen.

        One of those that does not say whose it is only where `takes_unowned`: no other database can have left it. The
        functions are called on the event loop: `on_spooled` with each job that is safe, or with why it is not;
        `on_readable` when there is something to drain.
        """
        folder = SpoolFolder.create(root, owner)
        backlog = Backlog(root)
        try:
            leftovers = take_in(backlog, adopted(root, owner.database, takes_unowned=takes_unowned))
            if leftovers.traces:
                _log.warning("%d traces that dead gateways left in %s are brought in", leftovers.traces, root)
            size = room(root, segment_bytes)
        except (OSError, CannotOpen) as exc:
            folder.close()
            raise CannotOpen(f"the spool folder {root} can't be read: {exc}") from exc
        return cls(
            folder,
            backlog,
            leftovers,
            segment_bytes=size,
            to_disk=durability != "none",
            on_spooled=on_spooled,
            on_readable=on_readable,
        )

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def pending(self) -> bool:
        """Whether anything is not drained. While there is, whatever is new goes behind it."""
        return self._waiting > 0 or self.backlog.bytes > 0

    @property
    def depth(self) -> int:
        """Ended traces that are not drained."""
        return max(0, self._traces - self._drained_traces) if self.pending else 0

    @property
    def oldest_s(self) -> float | None:
        """For how long the oldest has waited, or a little more."""
        return max(0.0, time.time() - self._oldest) if self._oldest is not None and self.pending else None

    @property
    def unable(self) -> str | None:
        """Why no new call should count on it; null when it can be written."""
        silent_for = time.monotonic() - self._heard_at if self._waiting else 0
        return f"it has not answered for {silent_for:.0f} s" if silent_for > _HANGS_S else self._appender.unable

    def put(self, job: Record) -> None:
        """Raises CannotRecord where it has no room: for a call's begin sooner than for its end."""
        if isinstance(job, Begin) and self.unable is not None:
            raise CannotRecord(f"the spool can't be written: {self.unable}")
        if self._queued_bytes + job.size > QUEUE_BYTES:
            raise QueueFull(f"{self._queued_bytes} bytes wait to be spooled, of at most {QUEUE_BYTES}")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        if not self.pending:
            _log.warning("what the database does not take goes to %s", self._folder)
            self._oldest = time.time()
            self._traces = self._drained_traces = 0
        if not self._waiting:
            self._heard_at = time.monotonic()
        self._queued_bytes += job.size
        self._waiting += 1
        self._traces += isinstance(job, Finish)
        self._appender.put(job)

    def drained(self, entries: Sequence[Entry]) -> None:
        """They are in the database, or will never be."""
        self._drained_traces += sum(entry.is_trace for entry in entries)
        self._oldest = entries[-1].spooled_at or self._oldest
        self.backlog.drained(entries)
        if not self.pending:
            _log.warning("the spool is drained")

    def close(self) -> None:
        """Blocks until everything that was put is on the disk: not for the event loop."""
        self._appender.close()

    def _appended(self, told: Told) -> None:
        """In the spool's thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, told)

    def _tell(self, told: Told) -> None:
        self._on_readable()
        self._waiting -= len(told)
        self._heard_at = time.monotonic()
        for job, refusal in told:
            self._queued_bytes -= job.size
            self._traces -= refusal is not None and isinstance(job, Finish)
            self._on_spooled(job, refusal)
