"""What an administrator does with backends at one gateway holds at every gateway of its database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Final

from gateway.backend import Backend
from gateway.backends import Backends
from gateway.known_backends import added, heed, settings_of
from gateway.settings import SettingsError
from storage.errors import StorageError
from storage.records import StoredBackend

logger = logging.getLogger(__name__)

_EVERY: Final = 1.0

Ask = Callable[[], Awaitable[tuple[StoredBackend, ...]]]
"""For those that the database has. Raises StorageError."""
Prepare = Callable[[Backend], Coroutine[None, None, None]]
"""What one that is new here needs before calls come."""


class Followed:
    """Takes over what the database has told since the last look. What the configuration says of a backend stays."""

    def __init__(self, backends: Backends, environ: Mapping[str, str]) -> None:
        self._backends = backends
        self._environ = environ
        self._told: dict[str, StoredBackend] = {}

    def take_over(self, stored: tuple[StoredBackend, ...]) -> list[Backend]:
        """The backends that are new here."""
        now = {backend.name: backend for backend in stored}
        # Only what the database has told of is gone where it no longer does: one that is just being added here is not.
        for gone in self._told.keys() - now.keys():
            self._drop(gone)
        changed = [each for each in stored if self._told.get(each.name) != each]
        came = [backend for each in changed if (backend := self._take(each)) is not None]
        self._told = now
        return came

    def _drop(self, name: str) -> None:
        known = self._backends.find(name)
        if known is None:
            return
        if known.source == "config":
            known.state, known.weight = "serving", None
            return
        self._backends.remove(name)
        logger.info("backend %s was removed at another gateway", name)

    def _take(self, stored: StoredBackend) -> Backend | None:
        known = self._backends.find(stored.name)
        try:
            if known is None:
                return self._add(stored)
            if known.source == "api":
                known.become(settings_of(stored, self._environ))
            heed(known, stored)
        except SettingsError as exc:
            logger.error("backend %s, added at another gateway, is left out: %s", stored.name, exc)
        return None

    def _add(self, stored: StoredBackend) -> Backend | None:
        if stored.source == "config":
            return None  # Of another gateway's configuration.
        backend = added(stored, self._environ)
        self._backends.add(backend)
        return backend


@asynccontextmanager
async def followed(followed: Followed, ask: Ask, prepare: Prepare) -> AsyncIterator[None]:
    """Every second, for as long as the context is open."""
    looking = asyncio.create_task(_follow(followed, ask, prepare), name="follow backends")
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait([looking])


async def _follow(followed: Followed, ask: Ask, prepare: Prepare) -> None:
    async with asyncio.TaskGroup() as prepared:
        while True:
            await asyncio.sleep(_EVERY)
            try:
                came = followed.take_over(await ask())
            except StorageError:
                continue  # What there is serves on.
            for backend in came:
                prepared.create_task(prepare(backend), name=f"prepare {backend.name}")
