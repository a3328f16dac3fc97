"""How late the event loop wakes a timer: whatever holds it up holds up every stream by as much."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

_EVERY_SECONDS: Final = 0.25


@asynccontextmanager
async def lag_watched(observe: Callable[[float], None]) -> AsyncIterator[None]:
    """`observe` is told seconds, four times a second."""
    watching = asyncio.create_task(_watch(observe), name="event-loop lag")
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _watch(observe: Callable[[float], None]) -> None:
    now = asyncio.get_running_loop().time
    while True:
        due = now() + _EVERY_SECONDS
        await asyncio.sleep(_EVERY_SECONDS)
        observe(max(0.0, now() - due))
