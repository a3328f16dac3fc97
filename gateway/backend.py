"""One inference server at run time: what it was configured as, what it turned out to be, who is there now."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from adapters.server import Server
from gateway.pulse import Pulse
from gateway.settings import BackendSettings
from storage.records import BackendSource, BackendState

# An agent that called so lately is about to call again: its session is load, though nothing is in flight.
_STAYS_SECONDS: Final = 10.0
_WHAT_IT_IS: Final = ("url", "engine", "version", "variant", "features", "api_key")


@dataclass(slots=True, eq=False)
class Backend:
    """Mutable: of those fields that administrators set a change holds from the next call on."""

    settings: BackendSettings
    source: BackendSource = "config"
    """Who named it: the configuration, or an administrator over HTTP."""
    state: BackendState = "serving"
    weight: float | None = None
    """What an administrator made of the configured one."""
    server: Server | None = None
    """Null until it was asked, or told."""
    known_as: Server | None = None
    """What it was found to be last, for as long as nothing says that it may be another program now."""
    weight_version: str | None = None
    """Of calls from now on; what an engine says of an answer wins over it."""
    in_flight: int = 0
    calls: int = 0
    """Calls that it answered with a success."""
    pulse: Pulse = field(default_factory=Pulse)
    asked_at: float = float("-inf")
    silent_at: float = float("-inf")
    """When it was last asked what it is, and did not answer."""
    asking: asyncio.Task[Server] | None = field(default=None, repr=False)
    _resting: OrderedDict[str, float] = field(default_factory=OrderedDict, repr=False)
    """Sessions without a call in flight, by when the last one ended."""

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def share(self) -> float:
        """Its weight among the others'."""
        return self.settings.weight if self.weight is None else self.weight

    @property
    def models(self) -> tuple[str, ...]:
        """Names or patterns: the configuration's word, or what the backend told."""
        return self.settings.models or (self.server.models if self.server is not None else ())

    def url_of(self, path: str) -> str:
        return self.settings.url + path

    def headers(self) -> list[tuple[str, str]]:
        """The backend's own credential; an agent's never goes upstream."""
        key = self.settings.api_key
        return [("authorization", f"Bearer {key.get_secret_value()}")] if key is not None else []

    def may_serve(self, model: str | None) -> bool:
        """One that has not told its models may serve any."""
        if model is None or model in self.settings.aliases:
            return True
        models = self.models
        return not models or model in models or any(fnmatchcase(model, pattern) for pattern in models)

    def name_of(self, model: str | None) -> str | None:
        """What a model that is asked for is called there."""
        return model if model is None else self.settings.aliases.get(model, model)

    def began(self, session_id: str | None) -> None:
        """A call is on its way; null for one that no other will follow."""
        self.in_flight += 1
        if session_id is not None:
            self._resting.pop(session_id, None)

    def ended(self, session_id: str | None, now: float) -> None:
        self.in_flight -= 1
        if session_id is not None:
            self._resting[session_id] = now
            self._resting.move_to_end(session_id)
            self._wake(now)

    def load(self, now: float) -> int:
        """Calls in flight, and sessions that rest between two."""
        self._wake(now)
        return self.in_flight + len(self._resting)

    def answered(self, now: float) -> None:
        """A call, with a success."""
        self.calls += 1
        self.pulse.answered(now)

    def died(self) -> None:
        """It may be another program when it is back, so it is asked anew."""
        self.server = self.known_as = None

    def become(self, settings: BackendSettings) -> None:
        """From the next call on. At another address, or by another word on its engine, it is another server."""
        before, self.settings = self.settings, settings
        if any(getattr(before, name) != getattr(settings, name) for name in _WHAT_IT_IS):
            self.died()
            self.pulse = Pulse()

    def _wake(self, now: float) -> None:
        resting = self._resting
        while resting and now - next(iter(resting.values())) > _STAYS_SECONDS:
            resting.popitem(last=False)
