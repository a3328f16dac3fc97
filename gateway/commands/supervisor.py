"""Processes that do the same work side by side: begun together, begun again where one dies, ended together.

The supervisor has no threads and does no work, so that nothing of it is in the way of what it forks, or can fail.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Final, TypeAlias

from gateway.commands.errors import CommandFailed

logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
# Whoever worked for so long died of something else than whoever was there before.
_LONG_ENOUGH: Final = 60.0

Tell: TypeAlias = Callable[[str | None], None]
"""By which a worker says that it is ready (null), or why it can't begin."""


@dataclass(slots=True, eq=False)
class _Worker:
    number: int
    process: ForkProcess | None = None
    told: Connection | None = None
    """Where its one word comes from, until it came."""
    ready: bool = False
    began_at: float = 0.0
    pause: float = _FIRST_PAUSE
    again_at: float = 0.0


class Supervisor:
    """`work` runs in each process, and ends with it. Its number and a `Tell` are given to it."""

    def __init__(
        self,
        work: Callable[[int, Tell], None],
        count: int,
        *,
        on_ready: Callable[[], None],
        on_stop: Callable[[], None],
        stop_within: float,
    ) -> None:
        """`on_ready` is called once, when all are, `on_stop` when they are told to end. Who is left is killed then
        after `stop_within` seconds.
        """
        self._work = work
        self._workers = [_Worker(number) for number in range(1, count + 1)]
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._stop_within = stop_within
        self._announced = False
        self._ends_at: float | None = None
        self._failure: CommandFailed | None = None
        self._lifeline = -1, -1
        """A pipe of which the supervisor alone has the end that is written to: whoever reads its end has lost it."""

    def run(self) -> None:
        """Until told to stop. Raises CommandFailed where one can't begin, before all of them have."""
        self._lifeline = os.pipe()
        try:
            with _signals() as signals:
                for worker in self._workers:
                    self._begin(worker)
                while self._ends_at is None or any(worker.process for worker in self._workers):
                    self._heed(signals)
        finally:
            self._kill()
            for end in self._lifeline:
                os.close(end)
        if self._failure is not None:
            raise self._failure

    def _heed(self, signals: socket.socket) -> None:
        """What comes next: a signal, a word, a death, or the time to begin one again."""
        waits: list[object] = [signals]
        waits += [worker.process.sentinel for worker in self._workers if worker.process is not None]
        waits += [worker.told for worker in self._workers if worker.told is not None]
        came = wait(waits, self._until_next())  # type: ignore[arg-type]
        if signals in came:
            for number in signals.recv(64):
                self._stop(signal.Signals(number))
        for worker in self._workers:
            if worker.told in came:
                self._hear(worker)
            if worker.process is not None and worker.process.sentinel in came:
                self._bury(worker)
        now = time.monotonic()
        if self._ends_at is not None:
            if now >= self._ends_at:
                logger.error("workers that have not ended in time are killed")
                self._kill()
            return
        for worker in self._workers:
            if worker.process is None and now >= worker.again_at:
                self._begin(worker)

    def _until_next(self) -> float | None:
        now = time.monotonic()
        if self._ends_at is not None:
            return max(0.0, self._ends_at - now)
        pauses = [worker.again_at - now for worker in self._workers if worker.process is None]
        return max(0.0, min(pauses)) if pauses else None

    def _begin(self, worker: _Worker) -> None:
        context = get_context("fork")
        worker.told, tells = context.Pipe(duplex=False)
        worker.process = context.Process(
            target=self._in_worker, args=(worker.number, tells), name=f"gateway-worker-{worker.number}"
        )
        worker.began_at, worker.ready = time.monotonic(), False
        worker.process.start()
        tells.close()

    def _in_worker(self, number: int, tells: Connection) -> None:
        # A group of its own: Ctrl-C is the supervisor's, which passes it on once.
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        reads, writes = self._lifeline
        os.close(writes)
        threading.Thread(target=_end_with, args=(reads,), daemon=True).start()
        self._work(number, tells.send)

    def _hear(self, worker: _Worker) -> None:
        assert worker.told is not None
        try:
            why = worker.told.recv()
        except EOFError:
            why = "it ended before it was ready; see above"
        worker.told.close()
        worker.told = None
        if why is not None and self._announced:
            logger.error("worker %d can't begin again: %s", worker.number, why)
        elif why is not None:
            self._fail(CommandFailed(why))
        else:
            worker.ready = True
            if not self._announced and all(each.ready for each in self._workers):
                self._announced = True
                self._announce()

    def _announce(self) -> None:
        try:
            self._on_ready()
        except CommandFailed as exc:
            self._fail(exc)

    def _fail(self, why: CommandFailed) -> None:
        """The others may serve already, so they are stopped in order."""
        if self._ends_at is None:
            self._failure = why
            self._stop(signal.SIGTERM)

    def _bury(self, worker: _Worker) -> None:
        assert worker.process is not None
        worker.process.join()
        status = worker.process.exitcode
        worker.process.close()
        worker.process = None
        if self._ends_at is not None:
            return
        now = time.monotonic()
        worker.pause = _FIRST_PAUSE if now - worker.began_at > _LONG_ENOUGH else min(2 * worker.pause, _LONGEST_PAUSE)
        worker.again_at = now + worker.pause
        died = f"was killed by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
        logger.error("worker %d %s; it begins again in %g s", worker.number, died, worker.pause)

    def _stop(self, number: signal.Signals) -> None:
        if self._ends_at is None:
            self._ends_at = time.monotonic() + self._stop_within
            self._on_stop()
        for worker in self._workers:
            if worker.process is not None and worker.process.pid is not None:
                os.kill(worker.process.pid, number)

    def _kill(self) -> None:
        for worker in self._workers:
            if worker.process is not None:
                worker.process.kill()
                worker.process.join()
                worker.process.close()
                worker.process = None


def _end_with(lifeline: int) -> None:
    """In a thread of a worker: a supervisor that was killed must leave nobody behind on its port."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _signals() -> Iterator[socket.socket]:
    """SIGTERM and SIGINT as bytes that can be waited for."""
    heard, told = socket.socketpair()
    heard.setblocking(False)
    told.setblocking(False)
    before = {each: signal.signal(each, lambda *_: None) for each in (signal.SIGTERM, signal.SIGINT)}
    wakeup = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    try:
        yield heard
    finally:
        signal.set_wakeup_fd(wakeup)
        for each, handler in before.items():
            signal.signal(each, handler)
        heard.close()
        told.close()
