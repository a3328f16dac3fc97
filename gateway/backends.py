"""The backends behind this gateway: which there are, which may take a call, and what each is found to be."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, Protocol

from adapters.server import Server
from gateway.backend import Backend
from gateway.pulse import Health
from gateway.routing import Candidate, Standing, order, spread
from gateway.upstream import NothingSent, TimedOut, UpstreamError

logger = logging.getLogger(__name__)

# An unknown model, or a 5xx, has the backends asked what they are again; not more often than this.
_ASK_AGAIN_AFTER: Final = 5.0
# One that was silent so lately need not be waited for again: a call asks all, and then tries some.
_JUST_NOW: Final = 0.5


class BackendExists(Exception):
    """A backend of that name is there already."""


class UnknownBackend(Exception):
    """There is no backend of that name."""


class NoBackend(Exception):
    """No backend is configured at all."""


class Draining(Exception):
    """Every backend that serves the model takes only the sessions that it has."""


class ModelNotServed(Exception):
    """Every backend has said which models it serves, and this is none of them."""

    def __init__(self, model: str, served: Iterable[str]) -> None:
        self.model = model
        self.served = sorted(set(served))
        known = ", ".join(f"`{name}`" for name in self.served) or "none"
        super().__init__(f"The model `{model}` is not served by any backend. Served: {known}.")


class NotUnderstood(NothingSent):
    """It was asked what it is, and the gateway failed on what it said; of the call it has seen nothing."""

    kind = "not_understood"


class Detector(Protocol):
    """Finds out what a backend is. Raises UpstreamError when it cannot be asked."""

    async def detect(self, backend: Backend) -> Server: ...


class Backends:
    """All backends by name, and what they turned out to be."""

    def __init__(
        self, backends: Iterable[Backend], detector: Detector, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._by_name = {backend.name: backend for backend in backends}
        self._detector = detector
        self._clock = clock
        self._asked_at = float("-inf")

    # Which there are.

    def all(self) -> list[Backend]:
        return list(self._by_name.values())

    def present(self) -> list[Backend]:
        """Without those that the configuration names and an administrator has removed."""
        return [backend for backend in self._by_name.values() if backend.state != "removed"]

    def find(self, name: str) -> Backend | None:
        return self._by_name.get(name)

    def get(self, name: str) -> Backend:
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownBackend(f"There is no backend named `{name}`.") from None

    def add(self, backend: Backend) -> None:
        if backend.name in self._by_name:
            raise BackendExists(f"A backend named `{backend.name}` exists already; remove it first.")
        self._by_name[backend.name] = backend

    def remove(self, name: str) -> Backend:
        """Calls in flight there go on to their end."""
        backend = self.get(name)
        del self._by_name[name]
        return backend

    # Which may take a call.

    def holding(self, model: str | None, pinned: str | None) -> Backend | None:
        """The backend that a session is pinned to, where it takes the session's next call."""
        backend = self._by_name.get(pinned) if pinned is not None else None
        if backend is None or backend.state == "removed" or not backend.may_serve(model):
            return None
        return backend if backend.pulse.takes_calls(self._clock()) else None

    def candidates(
        self, session_id: str, model: str | None, pinned: str | None, *, alone: bool = False
    ) -> Iterator[Backend]:
        """Backends to ask, the best first; those behind the one that a session has are found when they are needed.

        Of a call `alone` no other of its session follows. Raises NoBackend, ModelNotServed or Draining.
        """
        held = self.holding(model, pinned)
        if held is not None:
            return chain((held,), self._others(session_id, model, held))
        return iter(self._ranked(session_id, self._serving(model, pinned), pinned, alone=alone))

    def _others(self, session_id: str, model: str | None, held: Backend) -> Iterator[Backend]:
        serving = [backend for backend in self.present() if backend.state == "serving" and backend.may_serve(model)]
        ranked = self._ranked(session_id, serving, None, alone=False)
        yield from (backend for backend in ranked if backend is not held)

    def _serving(self, model: str | None, pinned: str | None) -> list[Backend]:
        present = self.present()
        if not present:
            raise NoBackend
        serving = [backend for backend in present if backend.may_serve(model)]
        if not serving:
            assert model is not None
            raise ModelNotServed(model, (name for each in present for name in (*each.models, *each.settings.aliases)))
        taking = [backend for backend in serving if backend.state == "serving" or backend.name == pinned]
        if not taking:
            raise Draining
        return taking

    def _ranked(
        self, session_id: str, backends: Sequence[Backend], pinned: str | None, *, alone: bool
    ) -> Sequence[Backend]:
        if len(backends) < 2:
            return backends
        now = self._clock()
        asked = [Candidate(each.name, each.load(now), each.share, _standing(each, now)) for each in backends]
        ranked = spread(session_id, asked) if alone else order(session_id, asked, pinned)
        by_name = {backend.name: backend for backend in backends}
        return [by_name[candidate.name] for candidate in ranked]

    # How they do.

    def health(self, backend: Backend) -> Health:
        return backend.pulse.health(self._clock())

    def is_down(self, backend: Backend) -> bool:
        return self.health(backend) == "down"

    def due(self, quiet: float) -> list[Backend]:
        """Those to be probed: nothing was heard of them for so long, or a pause is over."""
        now = self._clock()
        return [backend for backend in self.present() if backend.pulse.is_due(now, quiet)]

    def is_alive(self, backend: Backend) -> bool:
        return backend.pulse.is_alive(self._clock())

    def began(self, backend: Backend, session_id: str | None) -> None:
        """A call goes there. Of one that may be back it is the one that shows it."""
        backend.began(session_id)
        backend.pulse.tried = self.health(backend) == "half_open"

    def tried(self, backend: Backend) -> None:
        """What came of the call is known, or nothing will."""
        backend.pulse.tried = False

    def ended(self, backend: Backend, session_id: str | None) -> None:
        backend.ended(session_id, self._clock())

    def answered(self, backend: Backend) -> None:
        backend.answered(self._clock())

    def is_up(self, backend: Backend) -> None:
        """It has just said what it is: calls may go to it at once."""
        backend.pulse.answered(self._clock())

    def spoke(self, backend: Backend) -> None:
        backend.pulse.spoke(self._clock())

    def refused(self, backend: Backend, why: str) -> None:
        """Nobody takes connections there."""
        self._hurt(backend, lambda now: backend.pulse.refused(why, now))

    def struck(self, backend: Backend, why: str) -> None:
        """It failed in another way; twice in a row is dead."""
        self._hurt(backend, lambda now: backend.pulse.struck(why, now))

    def doubt(self, backend: Backend) -> None:
        """It answered with a 5xx: perhaps it is another server now. It is asked anew, though not for each error."""
        backend.pulse.doubted()
        if self._clock() - backend.asked_at >= _ASK_AGAIN_AFTER:
            backend.server = None

    def _hurt(self, backend: Backend, hurt: Callable[[float], None]) -> None:
        now = self._clock()
        was = backend.pulse.health(now)
        hurt(now)
        if backend.pulse.health(now) == "down":
            if was == "up" and backend.known_as is not None:
                logger.warning("backend %s is down: %s", backend.name, backend.pulse.last_error)
            backend.died()

    # What they are.

    async def server(self, backend: Backend) -> Server:
        """What a backend is: known, or found out now, once for all who wait. Raises NothingSent or another."""
        if backend.server is not None:
            return backend.server
        if self._clock() - backend.silent_at < _JUST_NOW:
            raise NothingSent(backend.name, backend.pulse.last_error or "it did not answer a moment ago")
        if backend.asking is None:
            backend.asking = asyncio.create_task(self._ask(backend), name=f"detect {backend.name}")
        # Shielded: one caller that goes away must not end the question that others wait for.
        return await asyncio.shield(backend.asking)

    async def ask_again(self, backend: Backend) -> Server:
        """Raises UpstreamError."""
        backend.server = None
        backend.silent_at = float("-inf")
        return await self.server(backend)

    async def know(self, backend: Backend) -> None:
        """Have one backend asked if it is unknown; it is marked if it does not answer."""
        try:
            await self.server(backend)
        except UpstreamError as exc:
            # Of several that waited for one question the first has marked it.
            if not self.is_down(backend):
                self.refused(backend, exc.why)

    async def know_all(self) -> None:
        """Have every backend asked that is unknown and up; one that does not answer is marked.

        For one that has failed nobody waits, unless there is none but such.
        """
        present = self.present()
        unknown = [backend for backend in present if backend.server is None and not self.is_down(backend)]
        asked = [backend for backend in unknown if backend.pulse.failures == 0]
        if not asked and len(unknown) == len(present):
            asked = unknown
        if asked:
            await self._ask_each(asked)

    async def ask_models_again(self) -> None:
        """Have every backend asked anew, unless that was done a moment ago."""
        now = self._clock()
        if now - self._asked_at < _ASK_AGAIN_AFTER:
            return
        self._asked_at = now
        backends = [backend for backend in self.present() if not self.is_down(backend)]
        for backend in backends:
            backend.server = None
        await self._ask_each(backends)

    async def _ask_each(self, backends: list[Backend]) -> None:
        await asyncio.gather(*(self.know(backend) for backend in backends))

    async def _ask(self, backend: Backend) -> Server:
        try:
            while True:
                backend.asked_at, settings = self._clock(), backend.settings
                server = await self._detector.detect(backend)
                if backend.settings is settings:
                    break  # Else it is another server's answer.
            backend.server = backend.known_as = server
            return server
        except TimedOut as exc:
            backend.pulse.kept_waiting(exc.why)
            if backend.known_as is not None:
                # It is busy, and no other program than it was a moment ago.
                backend.server = backend.known_as
                return backend.server
            backend.silent_at = self._clock()
            raise NothingSent(backend.name, exc.why) from exc
        except UpstreamError as exc:
            backend.silent_at = self._clock()
            backend.pulse.noted(exc.why)
            raise
        except Exception as exc:
            # Whatever one server says that we fail on, calls to the others go on.
            logger.exception("backend %s: what it is could not be found out", backend.name)
            raise NotUnderstood(
                backend.name, f"what it is could not be found out: {exc or type(exc).__name__}"
            ) from exc
        finally:
            backend.asking = None

    async def close(self) -> None:
        for backend in self._by_name.values():
            if backend.asking is not None:
                backend.asking.cancel()


def _standing(backend: Backend, now: float) -> Standing:
    if not backend.pulse.takes_calls(now):
        return Standing.DOWN
    return Standing.SLOW if backend.pulse.slow else Standing.WELL
