"""Attempts at several addresses: the first that succeeds, and nothing left of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.transport.race import first

Attempt = Callable[[], Coroutine[Any, Any, str]]


class Attempts:
    """What was begun, what was cancelled and what was thrown away."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.discarded: list[str] = []

    def after(self, seconds: float, name: str, error: Exception | None = None) -> Attempt:
        async def attempt() -> str:
            self.begun.append(name)
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                self.cancelled.append(name)
                raise
            if error is not None:
                raise error
            return name

        return attempt


async def test_the_first_address_is_the_only_one_where_it_answers_at_once() -> None:
    tried = Attempts()
    assert await first([tried.after(0, "a"), tried.after(0, "b")], 1.0, tried.discarded.append) == "a"
    assert tried.begun == ["a"]


async def test_a_silent_address_keeps_the_next_waiting_for_its_head_start_alone() -> None:
    tried = Attempts()
    assert await first([tried.after(60, "a"), tried.after(0, "b")], 0.02, tried.discarded.append) == "b"
    await asyncio.sleep(0)
    assert tried.cancelled == ["a"]


async def test_a_refused_address_keeps_nobody_waiting() -> None:
    tried = Attempts()
    attempts = [tried.after(0, "a", OSError("a")), tried.after(0, "b", OSError("b")), tried.after(0, "c")]
    async with asyncio.timeout(30):  # Half of the head start.
        assert await first(attempts, 60.0, tried.discarded.append) == "c"


async def test_where_all_fail_the_last_error_is_told() -> None:
    tried = Attempts()
    with pytest.raises(OSError, match="slow"):
        await first(
            [tried.after(0.05, "a", OSError("slow")), tried.after(0, "b", OSError("fast"))],
            0.01,
            tried.discarded.append,
        )


async def test_of_two_at_the_same_moment_one_is_discarded() -> None:
    tried = Attempts()
    gate = asyncio.Event()

    def at_once(name: str) -> Attempt:
        async def attempt() -> str:
            await gate.wait()
            return name

        return attempt

    racing = asyncio.create_task(first([at_once("a"), at_once("b")], 0.0, tried.discarded.append))
    await asyncio.sleep(0.02)
    gate.set()
    won = await racing
    await asyncio.sleep(0)
    assert sorted([won, *tried.discarded]) == ["a", "b"]


async def test_cancelling_the_race_cancels_its_attempts() -> None:
    tried = Attempts()
    racing = asyncio.create_task(first([tried.after(60, "a"), tried.after(60, "b")], 0.01, tried.discarded.append))
    await asyncio.sleep(0.05)
    racing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await racing
    await asyncio.sleep(0)
    assert sorted(tried.cancelled) == ["a", "b"]
