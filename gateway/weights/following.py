"""Keeps one gateway at what the database says of pauses and weights, and tells it how this one does.

Every half second where other gateways share the database; where none does, when there is something to write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from adapters.control import EnginePause
from gateway.backends import Backends
from gateway.patience import Patience
from gateway.weights.engines import Engines
from gateway.weights.gate import Gate, Standing
from gateway.weights.versions import Versions
from storage.errors import StorageError
from storage.weights import GateHeard, StoredPause, Weights

logger = logging.getLogger(__name__)

_EVERY: Final = 0.5


class Following:
    """`refresh` is for whoever has just changed something here."""

    def __init__(
        self,
        weights: Weights,
        backends: Backends,
        gate: Gate,
        versions: Versions,
        engines: Engines,
        patience: Patience,
        *,
        gateway_id: str,
        shared: bool,
    ) -> None:
        self._weights = weights
        self._backends = backends
        self._gate = gate
        self._versions = versions
        self._engines = engines
        self._patience = patience
        self._gateway_id = gateway_id
        self._shared = shared
        self._told: GateHeard | None = None
        self._due = False
        # An older look that ends later would undo a newer one.
        self._looking = asyncio.Lock()

    def own(self) -> GateHeard:
        """How this gateway heeds the pauses, just now."""
        return GateHeard(
            self._gateway_id,
            True,
            tuple(standing.pause.pause_id for standing in self._gate.standing),
            {backend.name: backend.in_flight for backend in self._backends.all() if backend.in_flight},
            {standing.pause.pause_id: standing.held for standing in self._gate.standing if standing.held},
        )

    @property
    def standing(self) -> list[Standing]:
        return self._gate.standing

    async def refresh(self) -> None:
        """Raises StorageError."""
        async with self._looking:
            await self._write_changes()
            known = await self._patience.wait_for(self._weights.known)
            self._versions.take_over(known.weights)
            # Last: who gets through is to have the new version.
            self._gate.heed(known.pauses)
            self._due = bool(known.pauses) or known.overdue
            await self._tell()
        if known.overdue:
            await self._end(await self._weights.expire())

    async def follow(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            self._versions.look()
            if not (self._shared or self._due or self._versions.unwritten):
                continue
            try:
                await self.refresh()
            except StorageError:
                continue  # What is known holds, each pause until its time is up.

    async def _write_changes(self) -> None:
        unwritten = self._versions.unwritten
        if changes := list(unwritten):
            await self._weights.change(changes)
            for _ in changes:
                unwritten.popleft()

    async def _tell(self) -> None:
        """That this gateway heeds them, and how many calls it still has: others wait for that."""
        own = self.own()
        if self._shared and own != self._told and (own.pauses or (self._told and self._told.pauses)):
            await self._weights.tell_gate(own)
            self._told = own

    async def _end(self, expired: tuple[StoredPause, ...]) -> None:
        for pause in expired:
            logger.warning("pause %s of %s was never released: its time is up", pause.pause_id, pause.owner or "nobody")
            await self.resume_engines(pause)

    async def resume_engines(self, pause: StoredPause) -> None:
        """Those that it had paused, and no other pause has."""
        if pause.engine is None:
            return
        mode: EnginePause = pause.engine
        paused = [standing.pause for standing in self._gate.standing if standing.pause.engine is not None]
        backends = [
            backend
            for backend in self._backends.all()
            if pause.covers(backend.name) and not any(other.covers(backend.name) for other in paused)
        ]
        for answer in await self._engines.ask("resume", mode, backends):
            if not answer.ok:
                logger.error("backend %s is still paused: %s", answer.backend, answer.error)


@asynccontextmanager
async def followed(following: Following, gate: Gate) -> AsyncIterator[None]:
    """For as long as the context is open. What was paused before this gateway began is so from its first call on."""
    try:
        await following.refresh()
    except StorageError as exc:
        logger.warning("whether anything is paused could not be looked up: %s", exc)
    task = asyncio.create_task(following.follow(), name="follow weights")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        gate.close()
