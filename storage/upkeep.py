"""Upkeep beside the calls: pruning and weighing, each in steps so small that no call waits for one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Connection

from storage import prune, sizes
from storage.database import Clock, Database, DatabaseSize
from storage.prune import Prunable, PruneQuery
from storage.sizes import RunSize

Result = TypeVar("Result")

AT_ONCE: Final = 100
"""Sessions that are looked for at a time."""


class Write(Protocol):
    """Runs something in a transaction of the writer's; of a session where it is about one."""

    def __call__(self, session_id: str | None, run: Callable[[Connection], Result]) -> Awaitable[Result]: ...


class Read(Protocol):
    """Runs something in a transaction of a reader's."""

    def __call__(self, query: Callable[..., Result], *args: Any) -> Awaitable[Result]: ...


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went, or would go."""

    sessions: int = 0
    traces: int = 0
    bytes: int = 0
    """Of their payloads as they were stored; some kilobyte a trace comes on top."""
    undelivered: int = 0
    """Of the sessions those that no consumer has acknowledged."""
    given_back_bytes: int = 0
    """By which the database's file is shorter now; what is not given back is used again."""
    more: bool = False
    """Whether the time was up before everything was done: ask again."""

    def with_one(self, gone: Prunable) -> Pruned:
        return replace(
            self,
            sessions=self.sessions + 1,
            traces=self.traces + gone.traces,
            bytes=self.bytes + gone.bytes,
            undelivered=self.undelivered + (not gone.delivered),
        )


@dataclass(frozen=True, slots=True)
class Sizes:
    database: DatabaseSize
    runs: tuple[RunSize, ...]
    """The largest first."""


class Upkeep:
    """For one event loop, on a store's own reader and writer."""

    def __init__(self, database: Database, read: Read, write: Write, clock: Clock) -> None:
        self._database = database
        self._read = read
        self._write = write
        self._clock = clock

    async def prune(self, query: PruneQuery, *, seconds: float) -> Pruned:
        """Delete these sessions for about so long, a transaction each, resting as long as each took.

        Raises Unavailable; what is gone by then is gone.
        """
        ends, now = time.monotonic() + seconds, await self._read(self._clock)
        pruned = Pruned()
        after: Prunable | None = None
        while found := await self._read(prune.find, query, now, after, AT_ONCE):
            for one in found:
                began = time.monotonic()
                erase = partial(prune.erase, query=query, session_id=one.session_id, now=now)
                if await self._write(one.session_id, erase):
                    pruned = pruned.with_one(one)
                if time.monotonic() > ends:
                    return replace(pruned, more=True)
                await asyncio.sleep(time.monotonic() - began)
            await self._checkpoint()
            after = found[-1]
        swept = prune.SWEPT_AT_ONCE
        while swept >= prune.SWEPT_AT_ONCE:
            swept = await self._write(None, partial(prune.sweep, now=now))
        return await self._shrink(pruned, ends)

    async def preview(self, query: PruneQuery) -> Pruned:
        """What `prune` would delete at this moment."""
        now = await self._read(self._clock)
        pruned = Pruned()
        after: Prunable | None = None
        while found := await self._read(prune.find, query, now, after, AT_ONCE):
            for one in found:
                pruned = pruned.with_one(one)
            after = found[-1]
        return pruned

    async def sizes(self) -> Sizes:
        """Looks at every trace's row, a few at a time: seconds for a million of them."""
        runs: list[RunSize] = []
        page = await self._read(sizes.weigh, None)
        while page.last is not None:
            runs += page.runs
            page = await self._read(sizes.weigh, page.last)
        return Sizes(await self._read(self._database.size), sizes.added(runs))

    async def _shrink(self, pruned: Pruned, ends: float) -> Pruned:
        while given_back := await self._write(None, self._database.shrink):
            pruned = replace(pruned, given_back_bytes=pruned.given_back_bytes + given_back)
            if time.monotonic() > ends:
                pruned = replace(pruned, more=True)
                break
        await self._checkpoint()
        return pruned

    async def _checkpoint(self) -> None:
        # The writer's own look at what calls have written, and deleting is not among it.
        await asyncio.to_thread(self._database.checkpoint)
