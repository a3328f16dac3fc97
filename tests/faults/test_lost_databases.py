"""D7: the database is away for a while: stopped, killed, hanging, locked, slow, cut off. Agents do not notice, and when
it is back it gets everything, in order, once.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from gateway.scripted import Fault
from tests.faults.tally import Tally
from tests.faults.wire import FaultProxy, between
from tests.faults.world import World, world
from tests.postgres import Postgres

_AGENTS = 6
_SETTINGS = {"commit_timeout": 1}
_CALLS_A_SESSION = 8
_TOO_LONG = 10.0
"""Seconds. No call of these takes a tenth of a second by itself."""

Outage = Callable[[], AbstractAsyncContextManager[None]]


async def outages_of_sqlite(folder: Path, seconds: Sequence[float]) -> Tally:
    """Another program holds the file's write lock, for so long each time."""
    tally = Tally("D7", "the database is locked, SQLite", len(seconds))
    async with world(folder, settings=_SETTINGS) as run:
        await _play(run, tally, [(partial(locked, folder / "rollouts.db"), each) for each in seconds])
    return tally


async def outages_of_postgres(folder: Path, seconds: Sequence[float], server: Postgres) -> Tally:
    """The server is stopped, killed or hangs, or the way to it does; in turn, for so long each time. Two gateways."""
    tally = Tally("D7", "the database is stopped, killed, hangs, is slow or cut off, PostgreSQL", len(seconds))
    url = urlsplit(server.database())
    async with between(server.port) as proxy:
        database = url._replace(netloc=f"postgres@127.0.0.1:{proxy.port}").geturl()
        ways = [stopped, _hanging, _killed]
        outages: list[Outage] = [partial(way, server) for way in ways]
        outages += [partial(way, proxy) for way in (_stalled, _cut, _slow)]
        async with world(folder, database=database, gateways=2, settings=_SETTINGS) as run:
            await _play(run, tally, [(outages[at % len(outages)], each) for at, each in enumerate(seconds)])
    return tally


async def _play(run: World, tally: Tally, outages: Sequence[tuple[Outage, float]]) -> None:
    ended = asyncio.Event()
    agents = [asyncio.create_task(_roll_out(run, tally, at, ended)) for at in range(_AGENTS)]
    depth = 0
    await asyncio.sleep(0.3)
    for outage, seconds in outages:
        async with outage():
            await asyncio.sleep(seconds)
            depth = max(depth, *[await _spooled(run, at) for at in range(len(run.gateways))])
        await asyncio.sleep(0.5)
    ended.set()
    await asyncio.gather(*agents)
    for at in range(len(run.gateways)):
        await run.idle(gateway=at)
        await run.settled(gateway=at, seconds=120)
    tally.add(await run.findings())
    slowest = max(heard.seconds for heard in run.heard)
    tally.expect(slowest < _TOO_LONG, f"a call took {slowest:.1f} s")
    tally.expect(depth > 0, "nothing was ever in the spool: this showed nothing")
    longest = max(seconds for _, seconds in outages)
    tally.shown = {
        "longest outage, s": longest,
        "calls": len(run.heard),
        "most in the spool": depth,
        "slowest call, s": f"{slowest:.1f}",
    }


async def _roll_out(run: World, tally: Tally, at: int, ended: asyncio.Event) -> None:
    """Sessions one after the other, each with one gateway, some begun while the database is away."""
    chance = random.Random(at)
    rollout = 0
    while not ended.is_set():
        session = f"agent-{at}-{rollout}"
        for _ in range(_CALLS_A_SESSION):
            fault = Fault(pause=chance.choice((0.0, 0.01)))
            gateway = at % len(run.gateways)
            heard = await run.call(session, fault=fault, stream=chance.random() < 0.6, gateway=gateway)
            whole = heard.status == 200 and heard.end == "whole"
            tally.expect(whole, f"call {heard.number} got {heard.status}, {heard.end}: {bytes(heard.body[-200:])!r}")
            await asyncio.sleep(chance.uniform(0.02, 0.1))
        run.leave(session)
        rollout += 1


async def _spooled(run: World, gateway: int) -> int:
    return int((await run.ask("/api/admin/status", gateway=gateway))["store"]["spool_depth"])


@asynccontextmanager
async def locked(database: Path) -> AsyncIterator[None]:
    with closing(sqlite3.connect(database, timeout=30, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@asynccontextmanager
async def stopped(server: Postgres) -> AsyncIterator[None]:
    await asyncio.to_thread(server.stop)
    yield
    await asyncio.to_thread(server.start)


@asynccontextmanager
async def _killed(server: Postgres) -> AsyncIterator[None]:
    await asyncio.to_thread(server.kill)
    yield
    await asyncio.to_thread(server.start)


@asynccontextmanager
async def _hanging(server: Postgres) -> AsyncIterator[None]:
    server.pause()
    yield
    server.resume()


@asynccontextmanager
async def _stalled(proxy: FaultProxy) -> AsyncIterator[None]:
    proxy.stall()
    yield
    proxy.flow()


@asynccontextmanager
async def _cut(proxy: FaultProxy) -> AsyncIterator[None]:
    proxy.taking = False
    proxy.cut(reset=True)
    yield
    proxy.taking = True


@asynccontextmanager
async def _slow(proxy: FaultProxy) -> AsyncIterator[None]:
    proxy.delay = 0.8
    yield
    proxy.delay = 0.0


async def test_a_locked_database_costs_agents_nothing_and_gets_everything_once(tmp_path: Path) -> None:
    """docs/promises.md D7, F4."""
    tally = await outages_of_sqlite(tmp_path, [3.0])
    assert tally.clean, tally.complaints()


async def test_a_database_that_is_away_costs_agents_nothing_and_gets_everything_once(
    tmp_path: Path, own_postgres: Postgres
) -> None:
    """docs/promises.md D7."""
    tally = await outages_of_postgres(tmp_path, [1.5, 2.0], own_postgres)
    assert tally.clean, tally.complaints()
