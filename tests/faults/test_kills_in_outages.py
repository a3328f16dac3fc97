"""D7 and D9 at once: a gateway is killed while its database is away, and what it had spooled comes in after."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from pathlib import Path

from tests.faults.ledger import Allowed
from tests.faults.tally import Tally
from tests.faults.test_kills import under_load
from tests.faults.test_lost_databases import Outage, locked, stopped
from tests.faults.world import World, world
from tests.postgres import Postgres

_AGENTS = 4
_SETTINGS = {"commit_timeout": 0.2}
"""Shorter than by default, so that more is in the spool at the kill."""


async def kills_while_locked(folder: Path, count: int) -> Tally:
    tally = Tally("D7", "kill -9 while the database is locked, SQLite", count)
    async with world(folder, settings=_SETTINGS) as run:
        await _play(run, tally, partial(locked, folder / "rollouts.db"))
    return tally


async def kills_while_stopped(folder: Path, count: int, server: Postgres) -> Tally:
    """The server is stopped, one of two gateways is killed, and both come back, the one that may be first."""
    tally = Tally("D7", "kill -9 of one of two gateways while the database is stopped, PostgreSQL", count)
    async with world(folder, database=server.database(), gateways=2, settings=_SETTINGS) as run:
        await _play(run, tally, partial(stopped, server))
    return tally


async def _play(run: World, tally: Tally, outage: Outage) -> None:
    spooled = 0
    async with under_load(run, _AGENTS):
        for at in range(tally.count):
            chance = random.Random(at)
            gateway = chance.randrange(len(run.gateways))
            async with outage():
                await asyncio.sleep(chance.uniform(0.5, 1.2))
                # The others may all be at the other gateway.
                await run.call(f"spooled-{at}", gateway=gateway)
                spooled += (await run.ask("/api/admin/status", gateway=gateway))["store"]["spool_depth"]
                run.gateways[gateway].kill()
            await run.gateways[gateway].start()
            await asyncio.sleep(0.2)
    for at in range(len(run.gateways)):
        await run.idle(gateway=at)
        await run.settled(gateway=at, seconds=120)
    tally.add(await run.findings(Allowed(untraced=True, order=False)))
    tally.expect(spooled > 0, "nothing was ever in the spool at a kill: this showed nothing")
    tally.shown = {"calls": len(run.heard), "spooled when killed": spooled}


async def test_what_a_killed_gateway_had_spooled_comes_in_when_it_starts_again(tmp_path: Path) -> None:
    """docs/promises.md D7, D9."""
    tally = await kills_while_locked(tmp_path, 2)
    assert tally.clean, tally.complaints()


async def test_what_one_of_two_had_spooled_comes_in_beside_the_other(tmp_path: Path, own_postgres: Postgres) -> None:
    """docs/promises.md D7, D9."""
    tally = await kills_while_stopped(tmp_path, 1, own_postgres)
    assert tally.clean, tally.complaints()
