"""A time limit on what one task does: `asyncio.timeout` for half of its cost, and moved for next to nothing.

Every call has two or three, and a stream moves one at each chunk.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Deadline:
    """Cancels what runs in its `with` when its time is up, and raises TimeoutError there. Entered once."""

    __slots__ = ("_at", "_cancelling", "_loop", "_rings_at", "_task", "_timer", "expired")

    def __init__(self, seconds: float) -> None:
        """From now on."""
        self._loop = asyncio.get_running_loop()
        self._at: float | None = self._loop.time() + seconds
        self._rings_at = self._at
        self._timer: asyncio.TimerHandle | None = None
        self.expired = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "a deadline is of a task"
        self._task = task
        self._cancelling = task.cancelling()
        self._timer = self._loop.call_at(self._rings_at, self._ring)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # Where someone else has cancelled the task too, it stays cancelled.
        if self.expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from exc

    def move(self, seconds: float | None) -> None:
        """To so many seconds from now; null: to never."""
        self._at = None if seconds is None else self._loop.time() + seconds
        # A timer that rings too early looks when it is due by then, so that only an earlier end needs another.
        if self._at is not None and not self.expired and (self._timer is None or self._at < self._rings_at):
            self._wind(self._at)

    def _wind(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = at
        self._timer = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._at is None:
            return
        if self._loop.time() < self._at:
            self._wind(self._at)
            return
        self.expired = True
        self._task.cancel()
