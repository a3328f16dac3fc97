"""D9: gateways are killed at random moments, while they start too, and nothing that was answered is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.scripted import Fault
from tests.faults.ledger import Allowed
from tests.faults.tally import Tally
from tests.faults.world import World, world

_AGENTS = 8
_CALLS_A_SESSION = 6


async def kills_on_sqlite(folder: Path, count: int) -> Tally:
    tally = Tally("D9", "kill -9 of the gateway, SQLite", count)
    async with world(folder) as run:
        async with _load(run):
            for number in range(count):
                await _kill(run, number)
        await run.idle()
        await _judge(run, tally)
    return tally


async def _kill(run: World, number: int) -> None:
    """One of the gateways, in whatever it is at; every eighth time once more while it starts."""
    chance = random.Random(number)
    gateway = chance.choice(run.gateways)
    await asyncio.sleep(chance.uniform(0.0, 0.15))
    gateway.kill()
    if number % 8 == 7:
        gateway.spawn()
        await asyncio.sleep(chance.uniform(0.0, 0.3))
        gateway.kill()
    await gateway.start()


@asynccontextmanager
async def _load(run: World) -> AsyncIterator[None]:
    """Agents that call until the end, then finish what they are at."""
    ended = asyncio.Event()
    agents = [asyncio.create_task(_play(run, at, ended)) for at in range(_AGENTS)]
    yield
    ended.set()
    await asyncio.gather(*agents)


async def _play(run: World, at: int, ended: asyncio.Event) -> None:
    """Sessions one after the other, whole and streamed, quick and slow; a call that fails is made again elsewhere."""
    chance = random.Random(at)
    gateway, rollout = at % len(run.gateways), 0
    while not ended.is_set():
        for _ in range(_CALLS_A_SESSION):
            fault = Fault(delay=chance.choice((0.0, 0.02)), pause=chance.choice((0.0, 0.002, 0.01)))
            stream = chance.random() < 0.7
            heard = await run.call(f"agent-{at}-{rollout}", fault=fault, stream=stream, gateway=gateway)
            if heard.status is None:
                await asyncio.sleep(0.05)
            gateway = (gateway + (heard.end != "whole")) % len(run.gateways)
        rollout += 1


async def _judge(run: World, tally: Tally) -> None:
    rows = await run.rows()
    answered = sum(heard.end == "whole" and heard.status == 200 for heard in run.heard)
    tally.add(run.ledger(rows).findings(Allowed(untraced=True)))
    interrupted = sum(row.status == "interrupted" for row in rows)
    tally.expect(interrupted > 0, "no call was in flight at any kill: this showed nothing")
    tally.shown = {"calls answered": answered, "cut": len(run.heard) - answered, "interrupted": interrupted}


async def test_kills_at_random_moments_lose_nothing_that_was_answered(tmp_path: Path) -> None:
    tally = await kills_on_sqlite(tmp_path, 6)
    assert tally.clean, tally.complaints()
