"""How often one call is tried: sent to two backends at most, while those that take no connection cost it little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.backend import Backend

TRIES: Final = 2
"""How often one call is sent. Where nobody took the connection, nothing was."""


class Tries:
    """Of one call: what came of those so far, and whether there may be another."""

    def __init__(self, *, patience: float, clock: Callable[[], float]) -> None:
        """`patience` is how long it may take to get through to somebody: after that no more are tried than two.

        How long the call was held before, or waited for the answer of one that it got through to, does not count.
        """
        self._patience = patience
        self._until = 0.0
        self._clock = clock
        self._sent = self._tried = 0
        self._last: Backend | None = None
        self._elsewhere = False
        self.failure: Exception | None = None
        """What the agent is to be told."""

    def may_try(self, backend: Backend) -> bool:
        """Whether this backend is the next; then it is."""
        may = self._tried == 0 or self._may_go_on(backend)
        if self._tried == 0:
            self._begin()
        self._tried += may
        self._last = backend
        return may

    def failed(self, failure: Exception, *, sent: bool, elsewhere: bool = False, outweighs: bool = True) -> None:
        """The last try. `elsewhere`: at that backend it would fail again."""
        self._sent += sent
        self._elsewhere = elsewhere
        if sent:
            self._begin()
        if outweighs:
            self.failure = failure

    def _begin(self) -> None:
        self._until = self._clock() + self._patience

    def _may_go_on(self, backend: Backend) -> bool:
        if self._sent >= TRIES:
            return False
        now = self._clock()
        takes_calls = backend.pulse.takes_calls(now)
        if self._elsewhere:
            return takes_calls and backend is not self._last
        return self._tried < TRIES or (takes_calls and now < self._until)
