"""The gate before the backends: which of them are paused, which calls wait there, and which are turned away.

It is asked between the choice of a backend and the call to it, with nothing awaited from then on: so that a call is
either held here or counted in the backend's `in_flight`, and who waits for that to be none misses nobody.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.backend import Backend
from gateway.deadline import Deadline
from gateway.refusals import Refusal
from storage.weights import StoredPause

_ASK_AGAIN_S: Final = 5


class Paused(Refusal):
    """The backend of the call is paused, and the call is not held any longer."""

    status = 429
    code = "paused"
    retry = True

    def __init__(self, why: str, remaining: float) -> None:
        super().__init__(f"{why}; try again.")
        self.retry_after = max(1, min(_ASK_AGAIN_S, math.ceil(remaining)))


@dataclass(slots=True, eq=False)
class Standing:
    """A pause as this gateway heeds it."""

    pause: StoredPause
    until: float
    """On the gate's clock: a database that is away keeps nobody waiting for ever."""
    held: int = 0


class Gate:
    """For one event loop. Open, it costs a call the look at `closed`."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._standing: dict[str, Standing] = {}
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False
        """Whether any backend is paused."""

    @property
    def standing(self) -> list[Standing]:
        return list(self._standing.values())

    def heed(self, pauses: Sequence[StoredPause]) -> None:
        """These are all that there are. Calls that one which is not among them held go on."""
        before = self._standing
        self._standing = {}
        for pause in pauses:
            until = self._clock() + pause.remaining
            known = before.get(pause.pause_id)
            held = known.held if known is not None else 0
            standing = known if known is not None else Standing(pause, until, held)
            standing.pause, standing.until = pause, until
            self._standing[pause.pause_id] = standing
        self._change()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def choose(self, candidates: Sequence[Backend], pinned: str | None) -> Backend | None:
        """The best of them that takes a call now. None: `hold` for the first of them, or for the pinned one."""
        home = next((backend for backend in candidates if backend.name == pinned), None)
        if home is not None and self._keeps(home.name):
            return None
        return next((backend for backend in candidates if not self._over(backend.name)), None)

    async def hold(self, backend: str) -> None:
        """Returns when it is paused no more, as far as is known now. Raises Paused."""
        began = self._clock()
        first = next(iter(self._over(backend)), None)
        if first is None:
            return
        if first.held >= first.pause.max_held:
            raise self._refusal(backend, f"as many calls wait for it already as may ({first.pause.max_held})", [first])
        first.held += 1
        try:
            while over := self._over(backend):
                await self._wait(backend, over, began)
        finally:
            first.held -= 1

    async def _wait(self, backend: str, over: Sequence[Standing], began: float) -> None:
        """Until something changes."""
        if any(standing.pause.mode == "reject" for standing in over):
            raise self._refusal(backend, "calls are turned away meanwhile", over)
        longest = min((s.pause.max_hold for s in over if s.pause.max_hold is not None), default=None)
        changed = self._changed
        if longest is None:
            await changed.wait()
            return
        try:
            with Deadline(max(0.0, began + longest - self._clock())):
                await changed.wait()
        except TimeoutError:
            raise self._refusal(backend, f"the call has waited for {longest:g} s", over) from None

    def _refusal(self, backend: str, why: str, over: Sequence[Standing]) -> Paused:
        remaining = max(standing.until for standing in over) - self._clock()
        return Paused(f"The backend `{backend}` is paused, and {why}", remaining)

    def _over(self, backend: str) -> list[Standing]:
        return [standing for standing in self._standing.values() if standing.pause.covers(backend)]

    def _keeps(self, backend: str) -> bool:
        """Whether it is paused, and its sessions are not to go elsewhere: their prefixes are in its cache."""
        return any(not standing.pause.move for standing in self._over(backend))

    def _change(self) -> None:
        self.closed = bool(self._standing)
        self._changed.set()
        self._changed = asyncio.Event()
        self.close()
        if self._standing:
            ends = min(standing.until for standing in self._standing.values())
            self._timer = asyncio.get_running_loop().call_later(max(0.0, ends - self._clock()), self._expire)

    def _expire(self) -> None:
        """Whoever paused may have died: the agents' world goes on."""
        now = self._clock()
        self._standing = {name: standing for name, standing in self._standing.items() if standing.until > now}
        self._change()
