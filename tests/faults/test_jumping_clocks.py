"""D11: the wall clock jumps, by hours, to and fro. Calls keep their order, their parents and their durations."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from gateway.scripted import Fault
from tests.faults.clock import Clock
from tests.faults.load import at_once
from tests.faults.tally import Tally
from tests.faults.world import PATIENT, World, world
from tests.postgres import Postgres

_FAR = 36 * 3600
_MONTH = 30 * 86_400
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


@asynccontextmanager
async def _one_of_two_wrong(folder: Path, postgres: Postgres, by_seconds: int) -> AsyncIterator[World]:
    """The clock of the first of two gateways."""
    clock = Clock(folder)
    async with world(folder, database=postgres.database(), gateways=2, environ=clock.environ) as run:
        clock.jump(by_seconds)
        yield run


async def _end(run: World, session: str, gateway: int) -> None:
    await run.call(session, gateway=gateway)
    async with run.client(gateway) as client:
        (await client.post(f"/api/sessions/{session}/finish", json={})).raise_for_status()


@pytest.mark.parametrize("jump", [_FAR, -_FAR])
async def test_a_lease_ends_by_the_databases_clock_at_every_gateway(
    tmp_path: Path, postgres: Postgres, jump: int
) -> None:
    """docs/promises.md D11."""
    async with _one_of_two_wrong(tmp_path, postgres, jump) as run:
        for by in range(2):
            await _end(run, f"session-{by}", by)
            async with run.client(by) as one, run.client(1 - by) as other:
                claim = (await one.post("/api/claims", json={"lease_s": 600})).json()
                assert (await other.post("/api/claims", json={})).status_code == 204
                told = (await other.get(f"/api/claims/{claim['claim_id']}")).json()
            assert (told["status"], told["session_ids"]) == ("held", [f"session-{by}"])
            left = datetime.fromisoformat(told["expires_at"]) - datetime.now(UTC)
            assert 500 < left.total_seconds() <= 600
            assert len((await run.ask("/api/admin/status", gateway=by))["gateways"]) == 2


@pytest.mark.parametrize("jump", [2 * _MONTH, -2 * _MONTH])
async def test_what_has_just_ended_is_not_pruned_as_old_by_any_gateways_clock(
    tmp_path: Path, postgres: Postgres, jump: int
) -> None:
    """docs/promises.md D11."""
    async with _one_of_two_wrong(tmp_path, postgres, jump) as run:
        for by in range(2):
            await _end(run, f"session-{by}", by)
        for by in range(2):
            async with run.client(by) as client:
                pruned = await client.post("/api/admin/prune", json={"older_than": _MONTH})
            assert pruned.json()["sessions"] == 0
