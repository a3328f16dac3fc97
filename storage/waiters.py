"""Who waits on the event loop for what the writer's thread does."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from storage.errors import NotCommitted

Result = TypeVar("Result")


def new_waiter() -> asyncio.Future[Result]:
    waiter: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    # An error that comes after its waiter has gone was logged by the writer, and is nobody's any more.
    waiter.add_done_callback(lambda done: done.cancelled() or done.exception())
    return waiter


async def wait(waiter: asyncio.Future[Result], timeout: float) -> Result:  # noqa: ASYNC109 - it ends the wait alone
    """Raises NotCommitted after so many seconds.

    One timer is all that this adds to the waiter; `wait_for` would add a task's worth.
    """
    late = NotCommitted(f"not committed within {timeout:g} s; it stays queued")
    timer = waiter.get_loop().call_later(timeout, fail, waiter, late)
    try:
        return await waiter
    finally:
        timer.cancel()


def deliver(waiter: asyncio.Future[Result], result: Result) -> None:
    """Nobody may be left who waits."""
    if not waiter.done():
        waiter.set_result(result)


def fail(waiter: asyncio.Future[Result], error: Exception) -> None:
    if not waiter.done():
        waiter.set_exception(error)
