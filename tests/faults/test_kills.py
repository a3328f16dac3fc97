"""D9: gateways are killed at random moments, while they start too, and nothing that was answered is lost."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.scripted import Fault
from tests.faults.ledger import Allowed
from tests.faults.records import Heard
from tests.faults.tally import Tally
from tests.faults.world import PATIENT, World, until, world
from tests.postgres import Postgres

_AGENTS = 8
_FEW = 3
"""Of agents, in the short form."""
_CALLS_A_SESSION = 6
_PAUSE = 0.05
_EACH = 5
"""Of so many kills the first meets a call in flight for certain, and the last is followed by one more while the gateway
starts.
"""


async def kills_on_sqlite(folder: Path, count: int, *, agents: int = _AGENTS) -> Tally:
    tally = Tally("D9", "kill -9 of the gateway, SQLite", count)
    async with world(folder) as run:
        await _play(run, tally, agents)
        await _judge(run, tally, Allowed(untraced=True))
    return tally


async def kills_on_postgres(
    folder: Path, count: int, database: str, *, agents: int = _AGENTS, patient: bool = True
) -> Tally:
    """Two gateways, of which now the one and now the other is killed. `patient`: until the dead have been missed."""
    tally = Tally("D9", "kill -9 of one of two gateways, PostgreSQL", count)
    async with world(folder, database=database, gateways=2, settings=PATIENT) as run:
        await _play(run, tally, agents)
        if patient:
            await run.settled(seconds=90)
        alive = {(await run.ask("/api/admin/status", gateway=at))["gateway_id"] for at in range(2)}
        dead = {row.gateway_id or "" for row in await run.rows()} - alive
        await _judge(run, tally, Allowed(untraced=True, running_of=() if patient else dead))
    return tally


async def gateways_thought_dead(folder: Path, count: int, database: str) -> Tally:
    """One of two stands still for so long that the other ends its calls for it; then it goes on, and they end well."""
    tally = Tally("D9", "a gateway that is silent for longer than 30 s and goes on, PostgreSQL", count)
    async with world(folder, database=database, gateways=2) as run:
        slow = Fault(pause=0.3)
        calls = [
            asyncio.create_task(run.call(f"session-{at}", fault=slow, gateway=1, limit=180)) for at in range(count)
        ]
        await until(lambda: sum(emission.told > 0 for emission in run.engines[0].emissions) == count)
        await _until_rows(run, "running", count)
        run.gateways[1].signal(signal.SIGSTOP)
        await _until_rows(run, "interrupted", count)
        run.gateways[1].signal(signal.SIGCONT)
        heard = await asyncio.gather(*calls)
        tally.expect(all(each.end == "whole" for each in heard), "a call of the one that went on has no end")
        await run.idle(gateway=1)
        tally.add(await run.findings())
    return tally


async def _until_rows(run: World, status: str, count: int) -> None:
    """Returns once so many traces have this status."""
    async with asyncio.timeout(90):
        while len((await run.ask("/api/traces", status=status, fields="trace_id"))["items"]) < count:
            await asyncio.sleep(0.2)


async def _play(run: World, tally: Tally, agents: int) -> None:
    async with under_load(run, agents):
        for number in range(tally.count):
            await _kill(run, number)
    for at in range(len(run.gateways)):
        await run.idle(gateway=at)


async def _kill(run: World, number: int) -> None:
    """One of the gateways, in whatever it is at."""
    chance = random.Random(number)
    at = chance.randrange(len(run.gateways))
    gateway = run.gateways[at]
    if number % _EACH == 0:
        await _kill_in_mid_answer(run, at, f"cut-{number}")
    else:
        await asyncio.sleep(chance.uniform(0.0, 0.15))
        gateway.kill()
    if number % _EACH == _EACH - 1:
        gateway.spawn()
        await asyncio.sleep(chance.uniform(0.0, 0.3))
        gateway.kill()
    await gateway.start()


async def _kill_in_mid_answer(run: World, gateway: int, session: str) -> None:
    """When an agent has read some of a slow answer. At a random moment all others may be in their pause."""

    async def kill(heard: Heard) -> None:
        if heard.body.count(b"data:") >= 3:
            run.gateways[gateway].kill()

    await run.call(session, fault=Fault(pause=0.3), gateway=gateway, waits=kill)


@asynccontextmanager
async def under_load(run: World, agents: int) -> AsyncIterator[None]:
    """Agents that call until the end, then finish what they are at."""
    ended = asyncio.Event()
    calling = [asyncio.create_task(_roll_out(run, at, ended)) for at in range(agents)]
    yield
    ended.set()
    await asyncio.gather(*calling)


async def _roll_out(run: World, at: int, ended: asyncio.Event) -> None:
    """Sessions one after the other, whole and streamed, quick and slow; a call that fails is made again elsewhere."""
    chance = random.Random(at)
    gateway, rollout = at % len(run.gateways), 0
    while not ended.is_set():
        for _ in range(_CALLS_A_SESSION):
            fault = Fault(delay=chance.choice((0.0, 0.02)), pause=chance.choice((0.0, 0.002, 0.01)))
            stream = chance.random() < 0.7
            heard = await run.call(f"agent-{at}-{rollout}", fault=fault, stream=stream, gateway=gateway)
            # Else the gateway that lives takes all that the machine has, and the other is long in starting.
            await asyncio.sleep(_PAUSE)
            gateway = (gateway + (heard.end != "whole")) % len(run.gateways)
        rollout += 1


async def _judge(run: World, tally: Tally, allowed: Allowed) -> None:
    rows = await run.rows()
    asked = {emission.number for emission in run.engines[0].emissions}
    answered = sum(heard.end == "whole" and heard.status == 200 for heard in run.heard)
    tally.add(run.ledger(rows).findings(allowed))
    interrupted = sum(row.status in ("interrupted", "running") for row in rows)
    cut = sum(heard.end != "whole" and heard.number in asked for heard in run.heard)
    tally.expect(cut > 0, "no call was in flight at any kill: this showed nothing")
    tally.shown = {"calls answered": answered, "cut": cut, "interrupted": interrupted}


async def test_kills_at_random_moments_lose_nothing_that_was_answered(tmp_path: Path) -> None:
    """docs/promises.md D9."""
    tally = await kills_on_sqlite(tmp_path, 5, agents=_FEW)
    assert tally.clean, tally.complaints()


async def test_kills_of_one_of_two_gateways_lose_nothing_that_was_answered(tmp_path: Path, postgres: Postgres) -> None:
    """docs/promises.md D9, B11."""
    tally = await kills_on_postgres(tmp_path, 5, postgres.database(), agents=_FEW, patient=False)
    assert tally.clean, tally.complaints()
