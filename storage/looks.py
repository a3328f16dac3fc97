"""Looks at a session's row for calls that wait for it: those that ask at the same time share one."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Final

from adapters.schema import Session
from storage import sessions
from storage.database import Database


class Looks:
    """For one event loop."""

    def __init__(self, database: Database, readers: Executor) -> None:
        self._found: Final = database.question(sessions.FOUND)
        self._readers: Final = readers
        self._under_way: dict[str, asyncio.Future[Session | None]] = {}

    def at(self, session_id: str) -> asyncio.Future[Session | None]:
        """One that is under way already, or a new one. It ends with SessionDeleted where the id has a tombstone."""
        look = self._under_way.get(session_id)
        if look is None:
            loop = asyncio.get_running_loop()
            look = self._under_way[session_id] = loop.run_in_executor(self._readers, self._find, session_id)

            def forget(ended: asyncio.Future[Session | None]) -> None:
                if self._under_way.get(session_id) is ended:
                    del self._under_way[session_id]
                ended.cancelled() or ended.exception()  # Whoever asked may have gone.

            look.add_done_callback(forget)
        return look

    def renew(self, session_id: str) -> None:
        """Who asks from now on shall see what has changed."""
        self._under_way.pop(session_id, None)

    def _find(self, session_id: str) -> Session | None:
        """In a reader's thread."""
        return sessions.found(session_id, self._found(session_id))
