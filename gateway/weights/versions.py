"""Which weights each backend has: by an administrator's word, its engine's answers, or what it said when asked."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from adapters.schema import Completion
from adapters.weights import UNNAMED, latest
from gateway.backend import Backend
from gateway.backends import Backends
from storage.weights import BackendWeights, WeightEvent, WeightSource, event

logger = logging.getLogger(__name__)

_KEPT: Final = 1000


class Versions:
    """Changes `Backend.weight_version`, which each call takes over at its dispatch, and keeps what is to be written."""

    def __init__(self, backends: Backends, gateway_id: str) -> None:
        self._backends = backends
        self._gateway_id = gateway_id
        self._taken: dict[str, BackendWeights] = {}
        self._detected: dict[str, str] = {}
        self.unwritten: deque[WeightEvent] = deque(maxlen=_KEPT)
        """Changes that the database has not been told of; the oldest are lost where it is away for very long."""

    def told(self, backend: Backend, completion: Completion) -> None:
        """An engine has ended an answer, and may have said with which weights."""
        version = latest(completion)
        if version is not None and version != backend.weight_version:
            self._news(backend, version, "engine")

    def look(self) -> None:
        """Take over what servers said of their weights since they were asked what they are."""
        for backend in self._backends.all():
            if backend.weight_version is None and (known := self._taken.get(backend.name)) is not None:
                backend.weight_version = known.weight_version  # It has come anew under its name.
            version = backend.server.weight_version if backend.server is not None else None
            # A server says it once, when it is asked; what has come since then is newer.
            if version in (None, UNNAMED, self._detected.get(backend.name)):
                continue
            assert version is not None
            self._detected[backend.name] = version
            if version != backend.weight_version:
                self._news(backend, version, "detection")

    def changes(self, backends: Iterable[Backend], version: str) -> list[WeightEvent]:
        """An administrator's word, for the database."""
        now = datetime.now(UTC)
        return [event(backend.name, version, "administrator", now, self._gateway_id) for backend in backends]

    def take_over(self, weights: Iterable[BackendWeights]) -> None:
        """What the database has, which other gateways write to as well."""
        backends = {backend.name: backend for backend in self._backends.all()}
        newer = {change.backend for change in self.unwritten}
        for told in weights:
            backend = backends.get(told.backend)
            if told.backend in newer:
                continue
            # Only what is news: an engine may have said more since, in an answer to this gateway.
            if backend is not None and (self._taken.get(told.backend) != told or backend.weight_version is None):
                backend.weight_version = told.weight_version
            self._taken[told.backend] = told  # Also of one that this gateway is yet to hear of.

    def _news(self, backend: Backend, version: str, source: WeightSource) -> None:
        logger.info("backend %s has the weights %s now, by its own word", backend.name, version)
        backend.weight_version = version
        self.unwritten.append(event(backend.name, version, source, datetime.now(UTC), self._gateway_id))
