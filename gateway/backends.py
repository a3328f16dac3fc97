"""The backends behind this gateway: what each is, what it can do, and how it has done lately."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, Protocol

from adapters.server import Server
from gateway.routing import Candidate, order
from gateway.settings import BackendSettings
from gateway.upstream import NothingSent, UpstreamError

Source = Literal["config", "api"]

logger = logging.getLogger(__name__)

# A backend that failed is asked last for this long, doubling with each failure in a row.
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
# More than it takes to get there, and fewer than a float can hold: a server may be away for a week.
_DOUBLINGS = 16
# An unknown model, or a 5xx, has the backends asked what they are again; not more often than this.
_ASK_AGAIN_AFTER = 5.0
# One that was silent so lately need not be waited for again: a call asks all, and then tries two.
_JUST_NOW = 0.5


class BackendExists(Exception):
    """A backend of that name is there already."""


class UnknownBackend(Exception):
    """There is no backend of that name."""


class NoBackend(Exception):
    """No backend is configured at all."""


class ModelNotServed(Exception):
    """Every backend has said which models it serves, and this is none of them."""

    def __init__(self, model: str, served: Iterable[str]) -> None:
        self.model = model
        self.served = sorted(set(served))
        known = ", ".join(f"`{name}`" for name in self.served) or "none"
        super().__init__(f"The model `{model}` is not served by any backend. Served: {known}.")


@dataclass(slots=True, eq=False)
class Backend:
    """One inference server at run time."""

    settings: BackendSettings
    source: Source = "config"
    """Who named it: the configuration, or an administrator over HTTP."""
    server: Server | None = None
    """Null until it was asked, or told."""
    weight_version: str | None = None
    """Of calls from now on; what an engine says of an answer wins over it."""
    in_flight: int = 0
    calls: int = 0
    """Calls that it answered with a success."""
    failures: int = 0
    """Failures in a row."""
    last_error: str | None = None
    down_until: float = 0.0
    asked_at: float = float("-inf")
    silent_at: float = float("-inf")
    """When it was last asked what it is, and did not answer."""
    _asking: asyncio.Task[Server] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.settings.name

    def url_of(self, path: str) -> str:
        return self.settings.url + path

    def headers(self) -> list[tuple[str, str]]:
        """The backend's own credential; an agent's never goes upstream."""
        key = self.settings.api_key
        return [("authorization", f"Bearer {key.get_secret_value()}")] if key is not None else []

    def down(self, now: float) -> bool:
        return now < self.down_until

    def answered(self) -> None:
        self.calls += 1
        self.is_up()

    def is_up(self) -> None:
        """It spoke: the next call may go to it at once."""
        self.failures = 0
        self.down_until = 0.0
        self.last_error = None

    def failed(self, why: str, now: float) -> None:
        """It refused a connection or dropped one. It may be another program when it is back, so it is asked anew."""
        self.down_until = now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self.failures, _DOUBLINGS))
        self.failures += 1
        self.last_error = why
        self.server = None


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

    def all(self) -> list[Backend]:
        return list(self._by_name.values())

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

    async def server(self, backend: Backend) -> Server:
        """What a backend is: known, or found out now, once for all who wait. Raises UpstreamError."""
        if backend.server is not None:
            return backend.server
        if self._clock() - backend.silent_at < _JUST_NOW:
            raise NothingSent(backend.name, backend.last_error or "it did not answer a moment ago")
        if backend._asking is None:
            backend._asking = asyncio.create_task(self._ask(backend), name=f"detect {backend.name}")
        # Shielded: one caller that goes away must not end the question that others wait for.
        return await asyncio.shield(backend._asking)

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
                self.failed(backend, exc.why)

    async def know_all(self) -> None:
        """Have every backend asked that is unknown and up; one that does not answer is marked."""
        now = self._clock()
        unknown = [b for b in self._by_name.values() if b.server is None and not b.down(now)]
        if unknown:
            await self._ask_each(unknown)

    async def ask_models_again(self) -> None:
        """Have every backend asked anew, unless that was done a moment ago."""
        now = self._clock()
        if now - self._asked_at < _ASK_AGAIN_AFTER:
            return
        self._asked_at = now
        backends = [backend for backend in self._by_name.values() if not backend.down(now)]
        for backend in backends:
            backend.server = None
        await self._ask_each(backends)

    def doubt(self, backend: Backend) -> None:
        """It answered with a 5xx: perhaps it is another server now. It is asked anew, though not for each error."""
        now = self._clock()
        if now - backend.asked_at >= _ASK_AGAIN_AFTER:
            backend.server = None

    async def _ask_each(self, backends: list[Backend]) -> None:
        await asyncio.gather(*(self.know(backend) for backend in backends))

    async def _ask(self, backend: Backend) -> Server:
        try:
            backend.asked_at = self._clock()
            backend.server = await self._detector.detect(backend)
            return backend.server
        except UpstreamError as exc:
            backend.silent_at, backend.last_error = self._clock(), exc.why
            raise
        except Exception as exc:
            # Whatever one server says that we fail on, calls to the others go on.
            logger.exception("backend %s: what it is could not be found out", backend.name)
            raise NotUnderstood(
                backend.name, f"what it is could not be found out: {exc or type(exc).__name__}"
            ) from exc
        finally:
            backend._asking = None

    def candidates(self, session_id: str, model: str | None, pinned: str | None) -> list[Backend]:
        """Backends to ask, the best first. Raises NoBackend or ModelNotServed."""
        if not self._by_name:
            raise NoBackend
        serving = [backend for backend in self._by_name.values() if _may_serve(backend, model)]
        if not serving:
            assert model is not None
            raise ModelNotServed(model, (name for backend in self.all() for name in _models(backend)))
        if len(serving) == 1:
            return serving
        now = self._clock()
        ranked = order(
            session_id,
            (Candidate(backend.name, backend.in_flight, backend.down(now)) for backend in serving),
            pinned,
        )
        return [self._by_name[candidate.name] for candidate in ranked]

    def is_down(self, backend: Backend) -> bool:
        return backend.down(self._clock())

    def failed(self, backend: Backend, why: str) -> None:
        backend.failed(why, self._clock())

    async def close(self) -> None:
        for backend in self._by_name.values():
            if backend._asking is not None:
                backend._asking.cancel()


def _models(backend: Backend) -> tuple[str, ...]:
    """Names or patterns: the configuration's word, or what the backend told."""
    return backend.settings.models or (backend.server.models if backend.server is not None else ())


def _may_serve(backend: Backend, model: str | None) -> bool:
    """A backend that has not told its models may serve any."""
    models = _models(backend)
    return model is None or not models or any(fnmatchcase(model, pattern) for pattern in models)
