"""The spool's own thread: appends what is queued, many records under one fsync, and keeps a file in reserve.

It is not the writer's thread, for that may hang in a call of the database. The reserve is why a disk that has become
full refuses new calls alone: those that run find room in it for their ends.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from storage.errors import CannotRecord
from storage.jobs import Pin, Record
from storage.spool.backlog import Backlog
from storage.spool.entries import EntryEncoder
from storage.spool.folder import SpoolFolder
from storage.spool.frames import FRAME_SIZE, HEADER_SIZE
from storage.spool.segment import Segment

_log: Final = logging.getLogger(__name__)
_GROUP: Final = 256
_LOOKS_AGAIN_S: Final = 0.5
_LOOKS_IDLY_S: Final = 5.0

Told = Sequence[tuple[Record, CannotRecord | None]]
"""Jobs that are safe, and those that are not with why."""


class Appender:
    """`put`, `unable` and `close` are for everyone; what is private runs in the thread."""

    def __init__(
        self,
        folder: SpoolFolder,
        backlog: Backlog,
        *,
        segment_bytes: int,
        to_disk: bool,
        on_appended: Callable[[Told], None],
    ) -> None:
        """`on_appended` is called in the thread."""
        self.unable: str | None = None
        """Why nothing new should count on it, in the system's words: there is no reserve."""
        self._folder = folder
        self._backlog = backlog
        self._segment_bytes = segment_bytes
        self._to_disk = to_disk
        self._on_appended = on_appended
        self._queue: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
        self._encode = EntryEncoder().encode
        self._current: Segment | None = None
        self._reserve: Segment | None = None
        self._in_hand: list[Record] = []
        """What was taken, until it is told of."""
        self._unsafe: list[Record] = []
        self._told: list[tuple[Record, CannotRecord | None]] = []
        self._ended = False
        self._keep_reserve()
        self._thread = threading.Thread(target=self._supervise, name="storage-spool", daemon=True)
        self._thread.start()

    def put(self, job: Record) -> None:
        self._queue.put(job)

    def close(self) -> None:
        """Append what is queued, and leave nothing of what is drained. Blocks: not for the event loop."""
        self._queue.put(None)
        self._thread.join()

    def _supervise(self) -> None:
        """What ends the work refuses what it had in hand, and the work starts again."""
        while not self._ended or self._in_hand:
            try:
                self._give_up()
                self._work()
            except BaseException:
                _log.exception("the spool's thread failed and starts again")
                time.sleep(_LOOKS_AGAIN_S)
        self._end()

    def _give_up(self) -> None:
        told = {id(job) for job, _ in self._told}
        self._unsafe = [job for job in self._in_hand if id(job) not in told]
        if self._unsafe:
            self._fail(OSError("its thread failed"))
        self._tell()

    def _work(self) -> None:
        while not self._ended:
            self._take()
            self._let_go_of_removed()
            self._append()
            if self._reserve is None:
                self._keep_reserve()
            if self._current is not None and not self._backlog.bytes:
                self._seal()

    def _take(self) -> None:
        """What is queued; nothing after a while, for there may be something to look after."""
        idle = self._current is None and self._reserve is not None
        try:
            job = self._queue.get(timeout=_LOOKS_IDLY_S if idle else _LOOKS_AGAIN_S)
            while job is not None:
                self._in_hand.append(job)
                if len(self._in_hand) == _GROUP:
                    return
                job = self._queue.get_nowait()
        except queue.Empty:
            return
        self._ended = True

    def _let_go_of_removed(self) -> None:
        """No start would find what is written into a file that somebody has removed."""
        if self._current is not None and not self._current.is_in_place:
            path = self._current.path
            _log.error("%s was removed; until it is drained this process alone has what is in it", path)
            self._seal()
        if self._reserve is not None and not self._reserve.is_in_place:
            self._reserve.close()
            self._reserve = None

    def _append(self) -> None:
        for job in self._in_hand:
            try:
                self._write(job, self._encode(job, time.time()))
            except OSError as exc:
                self._make_safe()
                self._unsafe.append(job)
                self._fail(exc)
            except Exception as exc:
                self._told.append((job, _refusal(job, exc)))
        self._make_safe()
        self._tell()

    def _write(self, job: Record, body: bytes) -> None:
        size = FRAME_SIZE + len(body)
        if self._current is None or not self._current.has_room(size):
            self._sync()
            self._current = self._next(HEADER_SIZE + size)
        self._current.append(self._current.framed(body))
        self._unsafe.append(job)

    def _next(self, least: int) -> Segment:
        """A file for the next record. Raises OSError."""
        if self._current is not None:
            self._seal()
        if least > self._segment_bytes:
            segment = self._new(least)
        else:
            segment = self._reserve or self._new(self._segment_bytes)
            self._reserve = None
        self._backlog.add(segment)
        return segment

    def _new(self, size: int) -> Segment:
        """Raises OSError."""
        if self._folder.restore():
            _log.error("the spool's folder %s was removed, and is made anew", self._folder.path)
        return Segment.create(self._folder.new_path(), size)

    def _make_safe(self) -> None:
        """What was written so far, whatever becomes of the rest."""
        try:
            self._sync()
        except OSError as exc:
            self._fail(exc)

    def _sync(self) -> None:
        """Raises OSError."""
        if self._unsafe:
            assert self._current is not None
            self._current.sync(to_disk=self._to_disk)
            self._told += [(job, None) for job in self._unsafe]
            self._unsafe = []

    def _seal(self) -> None:
        if self._current is not None:
            self._current.seal()
            self._current = None
            self._backlog.tidy()

    def _fail(self, cause: OSError) -> None:
        """What is not safe is lost to this file, in which nothing more can be trusted."""
        if self.unable is None:
            _log.error("the spool can't be written: %s", cause)
        self._told += [(job, _refusal(job, cause)) for job in self._unsafe]
        self._unsafe = []
        self._seal()

    def _tell(self) -> None:
        if self._told:
            self._on_appended(self._told)
        self._told, self._in_hand = [], []

    def _keep_reserve(self) -> None:
        try:
            self._reserve = self._new(self._segment_bytes)
        except OSError as exc:
            if self.unable is None:
                _log.warning("there is no room for the spool: %s", exc.strerror or exc)
            self.unable = exc.strerror or str(exc)
        else:
            if self.unable is not None:
                _log.warning("there is room for the spool again")
            self.unable = None

    def _end(self) -> None:
        self._seal()
        try:
            if self._reserve is not None:
                self._reserve.remove()
            self._folder.close()
        except OSError:
            _log.exception("the spool's folder %s can't be tidied up", self._folder.path)


def _refusal(job: Record, cause: Exception) -> CannotRecord:
    what = f"the backend of session {job.session_id}" if isinstance(job, Pin) else f"trace {job.trace.trace_id}"
    refusal = CannotRecord(f"{what} can't be recorded: {str(cause) or type(cause).__name__}")
    refusal.__cause__ = cause
    return refusal
