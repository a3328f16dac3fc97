"""A backend as administrators see it: what it was configured as, what it was found to be, how it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gateway.backend import Backend
from gateway.backends import Backends

Health = Literal["up", "down", "unknown"]


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
    health: Health
    in_flight: int
    calls: int
    """Answered with a success."""
    failures: int
    """In a row."""
    last_error: str | None


def status_of(backend: Backend, backends: Backends) -> BackendStatus:
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
        health=_health(backend, backends),
        in_flight=backend.in_flight,
        calls=backend.calls,
        failures=backend.pulse.failures,
        last_error=backend.pulse.last_error,
    )


def _health(backend: Backend, backends: Backends) -> Health:
    if backends.is_down(backend):
        return "down"
    return "up" if backend.server is not None else "unknown"
