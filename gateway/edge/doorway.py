"""What all connections of a listener share: how many there may be, and the deadline for a request to arrive.

One timer looks after all of them, so that a call costs none of its own.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Visitor(Protocol):
    """A connection, as far as its deadline goes."""

    since: float
    """When what is waited for began to be waited for, in the event loop's time; 0.0 while nothing is."""

    def overdue(self) -> None:
        """It took longer than it may."""


class Doorway:
    """`receive_timeout` is in seconds: for a request's head to be whole, from its first byte on or the connection's.

    Whoever has an answer already has as long to come to the end of what it sends.
    """

    def __init__(self, *, receive_timeout: float, max_connections: int | None = None) -> None:
        self.receive_timeout = receive_timeout
        self._max_connections = max_connections
        self._open: set[Visitor] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.closing = False
        """The server is about to stop: every answer says that its connection ends."""

    @property
    def full(self) -> bool:
        return self._max_connections is not None and len(self._open) >= self._max_connections

    def entered(self, visitor: Visitor) -> None:
        self._open.add(visitor)
        if self._timer is None:
            self._look_again()

    def left(self, visitor: Visitor) -> None:
        self._open.discard(visitor)

    def _look_again(self) -> None:
        seconds = min(1.0, self.receive_timeout / 4)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        too_old = asyncio.get_running_loop().time() - self.receive_timeout
        for visitor in [each for each in self._open if each.since and each.since < too_old]:
            visitor.overdue()
        self._timer = None
        if self._open:
            self._look_again()
