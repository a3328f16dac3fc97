"""D11: the wall clock jumps, by hours, to and fro. Calls keep their order, their parents and their durations."""

from __future__ import annotations

import asyncio
import random
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from gateway.scripted import Fault
from tests.faults.clock import Clock
from tests.faults.load import at_once
from tests.faults.tally import Tally
from tests.faults.world import PATIENT, World, world
from tests.postgres import Postgres

_FAR = 36 * 3600
_CALLS = 6


async def clocks_that_jump(folder: Path, count: int, database: str | None = None) -> Tally:
    """`count` sessions. With a database of their own two gateways share the calls, and one's clock jumps."""
    gateways = 2 if database else 1
    tally = Tally(
        "D11", f"a wall clock that jumps, {'one of two gateways, PostgreSQL' if database else 'SQLite'}", count
    )
    clock = Clock(folder)
    async with world(folder, database=database, gateways=gateways, settings=PATIENT, environ=clock.environ) as run:
        jumping = asyncio.create_task(_jump(clock))
        try:
            await at_once(lambda at: _play(run, at), count, most=8)
        finally:
            jumping.cancel()
        clock.jump(0)
        for at in range(gateways):
            await run.idle(gateway=at)
        await _judge(run, tally)
    return tally


async def _jump(clock: Clock) -> None:
    chance = random.Random(11)
    while True:
        clock.jump(chance.randrange(-_FAR, _FAR))
        await asyncio.sleep(0.05)


async def _play(run: World, at: int) -> None:
    chance = random.Random(at)
    for _ in range(_CALLS):
        fault = Fault(pause=chance.choice((0.0, 0.02)))
        await run.call(f"session-{at}", fault=fault, gateway=chance.randrange(len(run.gateways)))


async def _judge(run: World, tally: Tally) -> None:
    rows = await run.rows()
    tally.add(run.ledger(rows).findings())
    heard = {each.number: each for each in run.heard}
    for row in rows:
        took = heard[row.number].seconds * 1000
        told = row.duration_ms
        tally.expect(told is not None and 0.0 <= told <= took, f"call {row.number} took {took:.0f} ms, not {told}")
    started = [datetime.fromisoformat(row.started_at) for row in sorted(rows, key=lambda row: row.number)]
    back = sum(after < before for before, after in pairwise(started))
    tally.expect(back > 0, "the clock never went back between two calls: this showed nothing")
    for session in {each.session for each in run.heard}:
        page = await run.ask(f"/api/sessions/{session}/traces", fields="request_id")
        told_order = [int(item["request_id"]) for item in page["items"]]
        tally.expect(told_order == sorted(told_order), f"{session} is told in the order {told_order}")
    tally.shown = {"calls": len(rows), "the clock went back between two calls": back}


async def test_calls_keep_their_order_and_durations_while_the_clock_jumps(tmp_path: Path) -> None:
    """docs/promises.md D11."""
    tally = await clocks_that_jump(tmp_path, 6)
    assert tally.clean, tally.complaints()


async def test_one_gateways_clock_is_nothing_to_another(tmp_path: Path, postgres: Postgres) -> None:
    """docs/promises.md D11, B11."""
    tally = await clocks_that_jump(tmp_path, 6, postgres.database())
    assert tally.clean, tally.complaints()
