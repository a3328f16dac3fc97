"""The gate by itself: who gets through, who waits, who is turned away, and when that is over."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gateway.backend import Backend
from gateway.settings import BackendSettings
from gateway.weights.gate import Gate, Paused
from storage.weights import StoredPause

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ALL = StoredPause("all", None, None, "hold", False, None, 100, None, NOON, NOON, remaining=60.0)
A, B = (Backend(BackendSettings.parse(f"http://{name}:8000,name={name}")) for name in "ab")
OF_A = replace(ALL, pause_id="of a", backends=("a",))


@pytest.fixture
async def gate() -> Gate:
    return Gate()


async def holding(gate: Gate, backend: str = "a") -> asyncio.Task[None]:
    """A call that waits by now."""
    task = asyncio.create_task(gate.hold(backend))
    await asyncio.sleep(0)
    return task


async def test_an_open_gate_lets_the_best_through(gate: Gate) -> None:
    assert not gate.closed
    assert gate.choose([A, B], None) is A
    gate.heed([OF_A])
    assert gate.closed
    gate.heed([])
    assert not gate.closed
    assert gate.choose([A, B], "a") is A


async def test_a_new_session_goes_where_it_is_open_and_one_that_has_its_backend_waits_for_it(gate: Gate) -> None:
    gate.heed([OF_A])
    assert gate.choose([A, B], None) is B
    assert gate.choose([B, A], "a") is None
    assert gate.choose([A, B], "b") is B
    assert gate.choose([A], None) is None


async def test_a_session_moves_where_the_pause_says_so_and_no_other_pause_keeps_it(gate: Gate) -> None:
    moving = replace(OF_A, move=True)
    gate.heed([moving])
    assert gate.choose([A, B], "a") is B
    gate.heed([moving, replace(OF_A, pause_id="another")])
    assert gate.choose([A, B], "a") is None


async def test_a_held_call_goes_on_when_the_last_pause_of_its_backend_is_over(gate: Gate) -> None:
    gate.heed([ALL, OF_A])
    call = await holding(gate)
    gate.heed([OF_A])
    await asyncio.sleep(0.01)
    assert not call.done()
    gate.heed([replace(OF_A, released=("a",))])
    await call


async def test_calls_that_wait_are_counted_by_their_pause(gate: Gate) -> None:
    gate.heed([OF_A])
    calls = [await holding(gate) for _ in range(3)]
    gate.heed([replace(OF_A, remaining=120.0)])
    assert [standing.held for standing in gate.standing] == [3]
    calls[0].cancel()
    await asyncio.wait([calls[0]])
    assert [standing.held for standing in gate.standing] == [2]
    gate.heed([])
    await asyncio.gather(*calls[1:])


async def test_no_more_calls_wait_than_may(gate: Gate) -> None:
    gate.heed([replace(OF_A, max_held=2)])
    calls = [await holding(gate) for _ in range(2)]
    with pytest.raises(Paused, match="as many calls wait"):
        await gate.hold("a")
    gate.heed([])
    await asyncio.gather(*calls)


async def test_a_call_waits_no_longer_than_it_may(gate: Gate) -> None:
    gate.heed([replace(OF_A, max_hold=0.05)])
    with pytest.raises(Paused, match=r"waited for 0\.05 s") as refused:
        await gate.hold("a")
    assert dict(refused.value.headers) == {"x-should-retry": "true", "retry-after": "5"}


async def test_the_time_that_a_call_may_wait_does_not_begin_anew_when_a_pause_is_renewed(gate: Gate) -> None:
    gate.heed([replace(OF_A, max_hold=0.1)])
    call = await holding(gate)
    for _ in range(10):
        await asyncio.sleep(0.02)
        gate.heed([replace(OF_A, max_hold=0.1)])
    assert isinstance(call.exception(), Paused)


async def test_calls_are_turned_away_where_the_pause_says_so_and_told_when_to_come_back(gate: Gate) -> None:
    gate.heed([replace(OF_A, mode="reject", remaining=2.5)])
    with pytest.raises(Paused, match="turned away") as refused:
        await gate.hold("a")
    assert (refused.value.status, refused.value.retry_after) == (429, 3)


async def test_a_call_that_waits_is_turned_away_when_another_pause_says_so(gate: Gate) -> None:
    gate.heed([OF_A])
    call = await holding(gate)
    gate.heed([OF_A, replace(ALL, mode="reject")])
    with pytest.raises(Paused):
        await call


async def test_a_pause_that_nobody_releases_ends_by_itself(gate: Gate) -> None:
    gate.heed([replace(OF_A, remaining=0.05), replace(ALL, remaining=0.1)])
    first = await holding(gate)
    async with asyncio.timeout(5):
        await first
    assert not gate.closed
    gate.close()
