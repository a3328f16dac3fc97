"""Deadlines: when they end what runs under them, and that they end nothing else."""

from __future__ import annotations

import asyncio
import time

import pytest

from gateway.deadline import Deadline


async def test_what_takes_longer_ends_with_a_timeout_error() -> None:
    with pytest.raises(TimeoutError), Deadline(0.02):
        await asyncio.sleep(5)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_no_time_at_all_is_over_at_the_first_wait() -> None:
    with pytest.raises(TimeoutError), Deadline(0):
        await asyncio.sleep(5)


async def test_what_ends_in_time_is_left_alone() -> None:
    with Deadline(0.02) as deadline:
        pass
    await asyncio.sleep(0.05)
    assert not deadline.expired


async def test_an_error_in_time_is_the_callers() -> None:
    with pytest.raises(ValueError, match="mine"), Deadline(5):
        raise ValueError("mine")


async def test_a_task_that_someone_else_cancels_stays_cancelled() -> None:
    async def work() -> None:
        with Deadline(5):
            await asyncio.sleep(5)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_is_cancelled_at_the_very_deadline_stays_cancelled() -> None:
    async def work() -> None:
        with Deadline(0.01):
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                await asyncio.sleep(5)

    task = asyncio.create_task(work())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_inner_of_two_deadlines_ends_the_inner_alone() -> None:
    with Deadline(5):
        with pytest.raises(TimeoutError), Deadline(0.01):
            await asyncio.sleep(5)
        await asyncio.sleep(0)


async def test_the_outer_of_two_deadlines_ends_both() -> None:
    with pytest.raises(TimeoutError), Deadline(0.01) as outer, Deadline(5) as inner:
        await asyncio.sleep(5)
    assert outer.expired
    assert not inner.expired


async def test_a_deadline_that_is_moved_on_and_on_ends_after_the_last() -> None:
    async def work() -> None:
        with Deadline(0.03) as deadline:
            for _ in range(5):
                await asyncio.sleep(0.02)
                deadline.move(0.03)
            await asyncio.sleep(5)

    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        await work()
    assert time.monotonic() - begun > 0.12


async def test_a_deadline_that_is_moved_nearer_ends_sooner() -> None:
    async def work() -> None:
        with Deadline(60) as deadline:
            deadline.move(0.01)
            await asyncio.sleep(30)

    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        await work()
    assert time.monotonic() - begun < 20


async def test_a_deadline_that_is_moved_to_never_does_not_end_anything() -> None:
    with Deadline(0.01) as deadline:
        deadline.move(None)
        await asyncio.sleep(0.05)
    assert not deadline.expired


async def test_a_deadline_comes_back_from_never() -> None:
    async def work() -> None:
        with Deadline(0.01) as deadline:
            deadline.move(None)
            await asyncio.sleep(0.03)
            deadline.move(0.01)
            await asyncio.sleep(5)

    with pytest.raises(TimeoutError):
        await work()
