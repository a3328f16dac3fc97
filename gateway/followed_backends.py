"""Backends that an administrator adds or removes at one gateway are those of every gateway of its database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from gateway.backend import Backend
from gateway.backends import Backends
from gateway.introduction import introduce_one
from gateway.known_backends import settings_of
from gateway.settings import SettingsError
from storage.errors import StorageError
from storage.records import StoredBackend

logger = logging.getLogger(__name__)

_EVERY: Final = 2.0

Ask = Callable[[], Awaitable[tuple[StoredBackend, ...]]]
"""For those that the database has. Raises StorageError."""


class Followed:
    """Takes over what the database has told since the last look. Configured backends stay as they are."""

    def __init__(self, backends: Backends, environ: Mapping[str, str]) -> None:
        self._backends = backends
        self._environ = environ
        self._told: dict[str, StoredBackend] = {}

    def take_over(self, stored: tuple[StoredBackend, ...]) -> list[Backend]:
        """The backends that are new here."""
        now = {backend.name: backend for backend in stored}
        # Only what the database has told of is gone where it no longer does: one that is just being added here is not.
        for name in [name for name, before in self._told.items() if now.get(name) != before]:
            self._drop(name)
        came = [one for one in (self._take(each) for each in stored if self._told.get(each.name) != each) if one]
        self._told = now
        return came

    def _drop(self, name: str) -> None:
        known = [backend for backend in self._backends.all() if backend.name == name and backend.source == "api"]
        if known:
            self._backends.remove(name)
            logger.info("backend %s was removed at another gateway", name)

    def _take(self, stored: StoredBackend) -> Backend | None:
        if any(backend.name == stored.name for backend in self._backends.all()):
            return None
        try:
            backend = Backend(settings_of(stored, self._environ), source="api")
        except SettingsError as exc:
            logger.error("backend %s, added at another gateway, is left out: %s", stored.name, exc)
            return None
        self._backends.add(backend)
        return backend


@asynccontextmanager
async def followed(followed: Followed, backends: Backends, ask: Ask) -> AsyncIterator[None]:
    """Every two seconds, for as long as the context is open."""
    looking = asyncio.create_task(_follow(followed, backends, ask), name="follow backends")
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait([looking])


async def _follow(followed: Followed, backends: Backends, ask: Ask) -> None:
    async with asyncio.TaskGroup() as asked:
        while True:
            await asyncio.sleep(_EVERY)
            try:
                came = followed.take_over(await ask())
            except StorageError:
                continue  # What there is serves on.
            for backend in came:
                asked.create_task(introduce_one(backend, backends))
