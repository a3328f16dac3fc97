"""The first of several attempts that succeeds, each a little after the one before (RFC 8305, "Happy Eyeballs")."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


async def first(
    attempts: Sequence[Callable[[], Coroutine[Any, Any, T]]], head_start: float, discard: Callable[[T], object]
) -> T:
    """Its result; the others are cancelled, and what they still bring is discarded. Raises the last one's error.

    An attempt begins when the one before has failed, or has had its head start in seconds.
    """
    waiting = deque(attempts)
    running: set[asyncio.Task[T]] = set()
    try:
        while True:
            if waiting:
                running.add(asyncio.create_task(waiting.popleft()()))
            limit = head_start if waiting else None
            done, _ = await asyncio.wait(running, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                running.discard(each)
                if each.exception() is None:
                    return each.result()
            if not running and not waiting:
                return done.pop().result()
    finally:
        for late in running:
            late.cancel()
            late.add_done_callback(lambda task: _discard(task, discard))


def _discard(late: asyncio.Task[T], discard: Callable[[T], object]) -> None:
    if not late.cancelled() and late.exception() is None:
        discard(late.result())
