"""D3: a backend hangs, before its headers or in mid-answer. The call ends at its time limit and leaves no socket."""

from __future__ import annotations

import random
from pathlib import Path

from gateway.scripted import Fault
from tests.faults.load import at_once
from tests.faults.records import Heard
from tests.faults.said import said
from tests.faults.tally import Tally
from tests.faults.world import World, until, world

_LIMITS = {"first_byte_timeout": 0.4, "idle_timeout": 0.4}


async def backends_that_hang(folder: Path, count: int) -> Tally:
    tally = Tally("D3", "the backend hangs before its headers, or in mid-answer", count)
    async with world(folder, settings=_LIMITS) as run:
        await run.call("warm")
        await run.idle()
        before = run.gateway.descriptors()
        hung: list[Heard] = []

        async def play(at: int) -> None:
            chance = random.Random(at)
            mid_stream = at % 2 == 1
            fault = Fault(after_frames=chance.randrange(2, 6), ending="hung") if mid_stream else Fault(delay=30.0)
            hung.append(await run.call(f"session-{at}", fault=fault, stream=mid_stream or chance.random() < 0.5))
            await run.call(f"session-{at}")

        await at_once(play, count)
        for agent in run.agents.values():
            agent.close()
        await run.idle()
        await _judge(run, tally, hung)
        # What is kept open for the next calls is closed again; what leaked would stay, one for each.
        await until(lambda: run.gateway.descriptors() <= before + 24)
        tally.shown = {"descriptors before and after": f"{before}, {run.gateway.descriptors()}"}
    return tally


async def _judge(run: World, tally: Tally, hung: list[Heard]) -> None:
    rows = await run.rows()
    tally.add(run.ledger(rows).findings())
    by_number = {row.number: row for row in rows}
    for heard in hung:
        told, row = said(heard), by_number[heard.number]
        tally.expect(not told.finished and told.error is not None, f"call {heard.number} was told no error")
        tally.expect(heard.status in (200, 504), f"call {heard.number} got the status {heard.status}")
        tally.expect(heard.status != 200 or bool(told.text), f"call {heard.number} had a 200 before any token")
        tally.expect(row.http_status == 504, f"call {heard.number} is recorded with {row.http_status}")
    emissions = [e for e in run.engines[0].emissions if e.number in {heard.number for heard in hung}]
    tally.expect(all(e.let_go for e in emissions), "a backend that hung was not let go of")


async def test_a_backend_that_hangs_ends_its_call_in_time_and_leaves_no_socket(tmp_path: Path) -> None:
    """docs/promises.md D3."""
    tally = await backends_that_hang(tmp_path, 24)
    assert tally.clean, tally.complaints()
