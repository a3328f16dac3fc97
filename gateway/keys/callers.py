"""The ring, kept as fresh as the database: every gateway heeds within seconds what was made, changed or revoked at one.

A call costs the database nothing. Only a key that looks like a stored one and is not known has it asked, for it may
have been made at another gateway just now; and however many such keys come, not more than a few times a second.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Final, Protocol

from gateway.keys.brought import is_stored_key
from gateway.keys.caller import Caller
from gateway.keys.ring import KeyRing
from gateway.patience import Patience
from gateway.refusals import NotRecordable
from storage.errors import StorageError
from storage.keys import KeySet

logger = logging.getLogger(__name__)

_EVERY: Final = 1.0
_WRITTEN_EVERY: Final = 30.0
_ASKED_AT_MOST_EVERY: Final = 0.25


class KeyStore(Protocol):
    """What this module needs of the store."""

    def changes(self) -> Awaitable[int]: ...
    def live(self) -> Awaitable[KeySet]: ...
    def used(self, at: Mapping[str, datetime]) -> Awaitable[None]: ...


class Callers:
    """Whose each key is."""

    def __init__(
        self,
        ring: KeyRing,
        store: KeyStore | None = None,
        *,
        shared: bool = False,
        patience: Patience | None = None,
    ) -> None:
        """Without a store there are the ring's own keys alone. `shared`: other gateways make keys too."""
        self.ring = ring
        self._store = store
        self._shared = shared
        self._patience = patience or Patience()
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()

    async def find(self, key: str) -> Caller | None:
        """Null for one that is unknown, revoked or expired. Raises NotRecordable where only the database would know."""
        caller = self.ring.caller(key)
        if caller is not None or not self._shared or not is_stored_key(key):
            return caller
        try:
            await self._look()
        except StorageError as exc:
            raise NotRecordable("The database can't be read now, so it is not known whose key this is.") from exc
        return self.ring.caller(key)

    async def refresh(self) -> None:
        """Heed what has changed. Raises StorageError."""
        if self._store is None:
            return
        if self.ring.changes is None or self.ring.changes != await self._patience.wait_for(self._store.changes):
            self.ring.take(await self._patience.wait_for(self._store.live))

    async def _look(self) -> None:
        """One for all that come meanwhile."""
        async with self._looking:
            if time.monotonic() - self._looked_at >= _ASKED_AT_MOST_EVERY:
                await self.refresh()
                self._looked_at = time.monotonic()

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Kept fresh, and the last uses written down, for as long as the context is open. Raises StorageError."""
        await self.refresh()
        tasks = [asyncio.create_task(self._write_uses(), name="write down the uses of keys")]
        if self._shared:
            tasks.append(asyncio.create_task(self._follow(), name="follow keys"))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._write_used()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            with suppress(StorageError):  # What is known holds on.
                await self.refresh()

    async def _write_uses(self) -> None:
        while True:
            await asyncio.sleep(_WRITTEN_EVERY)
            await self._write_used()

    async def _write_used(self) -> None:
        used, self.ring.used = self.ring.used, {}
        if not used or self._store is None:
            return
        try:
            await self._store.used(used)
        except StorageError as exc:
            logger.info("when keys were last used is not written down: %s", exc)
            self.ring.used = used | self.ring.used
