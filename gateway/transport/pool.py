"""Which connections are open and which of them are free. Plain functions alone: nothing here waits or writes."""

from __future__ import annotations

import asyncio

from gateway.transport.connection import Connection
from gateway.transport.target import Origin


class Pool:
    """Unlimited: the limit is that of file descriptors, for a call that queues here is a rollout that stands still."""

    def __init__(self, *, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._open: set[Connection] = set()
        # Dictionaries for their order and for taking out of the middle: the oldest first, the one used last at the end.
        self._idle: dict[Origin, dict[Connection, None]] = {}
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Future[None] | None = None

    @property
    def idle(self) -> int:
        return sum(map(len, self._idle.values()))

    @property
    def in_use(self) -> int:
        return len(self._open) - self.idle

    def take(self, origin: Origin) -> Connection | None:
        """The free connection that was used last, so that those not needed grow old."""
        idle = self._idle.get(origin)
        while idle:
            connection, _ = idle.popitem()
            if not connection.closed:
                return connection
        return None

    def close(self) -> asyncio.Future[None]:
        """Cut every connection; done when their sockets are closed."""
        loop = asyncio.get_running_loop()
        if self._closing is None:
            self._closing = loop.create_future()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for connection in tuple(self._open):
            connection.cut()
        self._tell_when_closed()
        return self._closing

    def opened(self, connection: Connection) -> None:
        """A connection just made, in use from now on."""
        if not connection.gone:
            self._open.add(connection)
        if self._closing is not None:
            connection.cut()

    # What connections tell.

    def freed(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(connection.origin, {})[connection] = None
        if self._sweep_timer is None:
            self._sweep_timer = loop.call_later(self._idle_seconds, self._sweep)

    def spoiled(self, connection: Connection) -> None:
        idle = self._idle.get(connection.origin)
        if idle is not None:
            idle.pop(connection, None)

    def gone(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._tell_when_closed()

    def _tell_when_closed(self) -> None:
        if self._closing is not None and not self._open and not self._closing.done():
            self._closing.set_result(None)

    def _sweep(self) -> None:
        """Cut what has been free for too long, and come back for what will be."""
        loop = asyncio.get_running_loop()
        too_old = loop.time() - self._idle_seconds
        for connection in [each for idle in self._idle.values() for each in idle if each.idle_since <= too_old]:
            connection.cut()
        self._idle = {origin: idle for origin, idle in self._idle.items() if idle}
        oldest = min((next(iter(idle)).idle_since for idle in self._idle.values()), default=None)
        self._sweep_timer = None
        if oldest is not None:
            self._sweep_timer = loop.call_at(oldest + self._idle_seconds, self._sweep)
