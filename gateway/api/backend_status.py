"""A backend as administrators see it: what it was configured as, what it was found to be, how it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from gateway.backend import Backend
from gateway.backends import Backends
from storage.records import BackendState

Health = Literal["up", "half_open", "down", "unknown"]


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """One backend. Never its key."""

    name: str
    url: str
    source: Literal["config", "api"]
    engine: str | None
    version: str | None
    variant: str | None
    features: tuple[str, ...]
    models: tuple[str, ...]
    known: Literal["configured", "detected", "probed", "assumed"] | None
    """How the engine is known; null before the backend was asked."""
    weight_version: str | None
    tokenizer: str | None
    api_key_env: str | None
    state: BackendState
    """`draining`: no session begins there. `removed`: of one that stands in the configuration; nothing goes there."""
    weight: float
    aliases: Mapping[str, str]
    """Names that agents may ask for, and the model that each is there."""
    health: Health
    """`half_open`: it was down and takes a single call, which shows whether it is back."""
    slow: bool
    """It let a probe or a call wait for too long; others are preferred to it."""
    in_flight: int
    calls: int
    """Answered with a success."""
    failures: int
    """In a row."""
    last_error: str | None
    """Of what it has not answered since."""
    last_error_at: datetime | None
    last_success_at: datetime | None
    open_sessions: int | None
    """While it drains: how many sessions have it and have not ended; of all gateways."""
    drained: bool
    """It drains, and nobody is there any more."""


def status_of(backend: Backend, backends: Backends, *, open_sessions: int | None = None) -> BackendStatus:
    settings, server = backend.settings, backend.server
    features = server.features if server is not None else frozenset(settings.features)
    return BackendStatus(
        name=backend.name,
        url=settings.url,
        source=backend.source,
        engine=server.engine if server is not None else settings.engine,
        version=server.version if server is not None else settings.version,
        variant=server.variant if server is not None else settings.variant,
        features=tuple(sorted(features)),
        models=settings.models or (server.models if server is not None else ()),
        known=server.known if server is not None else None,
        weight_version=backend.weight_version,
        tokenizer=settings.tokenizer,
        api_key_env=settings.api_key_env,
        state=backend.state,
        weight=backend.share,
        aliases=settings.aliases,
        slow=backend.pulse.slow,
        health=_health(backend, backends),
        in_flight=backend.in_flight,
        calls=backend.calls,
        failures=backend.pulse.failures,
        last_error=backend.pulse.last_error,
        last_error_at=backend.pulse.last_error_at,
        last_success_at=backend.pulse.last_success_at,
        open_sessions=open_sessions,
        drained=backend.state == "draining" and backend.in_flight == 0 and open_sessions == 0,
    )


def _health(backend: Backend, backends: Backends) -> Health:
    health = backends.health(backend)
    return "unknown" if health == "up" and backend.server is None else health
