"""Many sessions at once, each of which makes its calls one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Play = Callable[[int], Awaitable[None]]


async def at_once(play: Play, count: int, *, most: int = 16) -> None:
    """`play(0)` to `play(count - 1)`, so many at a time."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await play(number)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(most, count)):
            tasks.create_task(worker())
