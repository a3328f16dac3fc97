"""D2: a backend refuses, or resets before any byte. The other one is asked, once, and the agent does not notice."""

from __future__ import annotations

import random
from pathlib import Path

from gateway.scripted import Fault
from tests.faults.backend import Engine, Order, running
from tests.faults.load import at_once
from tests.faults.tally import Tally
from tests.faults.wire import between
from tests.faults.world import World, world


async def backends_that_are_not_there(folder: Path, count: int) -> Tally:
    """Half of the calls meet a backend that hangs up without a byte, the others one whose door is shut for good."""
    tally = Tally("D2", "a backend refuses or resets before any byte", count)
    first = Engine()
    async with running(first) as url, between(int(url.rpartition(":")[2])) as proxy:
        second = first.beside()
        async with running(second) as other:
            backends = [f"http://127.0.0.1:{proxy.port},name=a,engine=vllm", f"{other},name=b,engine=vllm"]
            async with world(folder, engines=[first], backends=backends) as run:
                await at_once(lambda at: _play(run, at, hangs_up=True), count - count // 2, most=8)
                proxy.taking = False
                proxy.cut(reset=True)
                await at_once(lambda at: _play(run, at, hangs_up=False), count // 2, most=8)
                await run.idle()
                await _judge(run, tally)
    return tally


async def _play(run: World, at: int, *, hangs_up: bool) -> None:
    chance = random.Random(at)
    fault = Fault(silent=True, ending=chance.choice(("closed", "reset"))) if hangs_up else Fault()
    session = f"session-{at}"
    await run.call(session, stream=chance.random() < 0.5)
    await run.call(session, order=Order(fault, once=True), stream=chance.random() < 0.5)
    await run.call(session)


async def _judge(run: World, tally: Tally) -> None:
    rows = await run.rows()
    tally.add(run.ledger(rows).findings())
    for heard in run.heard:
        tally.expect(
            heard.status == 200 and heard.end == "whole", f"call {heard.number} got {heard.status}, {heard.end}"
        )
    twice = [row for row in rows if len(row.attempts) == 2]
    for row in rows:
        tried = [attempt.status for attempt in row.attempts]
        tally.expect(tried in ([200], [None, 200]), f"call {row.number} was tried {tried}")
    tally.expect(bool(twice), "no call was tried twice: this showed nothing")
    tally.shown = {"calls": len(run.heard), "tried twice": len(twice)}


async def test_a_backend_that_is_not_there_costs_its_agent_nothing_and_the_try_is_recorded(tmp_path: Path) -> None:
    """docs/promises.md D2."""
    tally = await backends_that_are_not_there(tmp_path, 6)
    assert tally.clean, tally.complaints()
