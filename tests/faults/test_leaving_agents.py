"""D4: agents leave in every phase. Their backend is let go within a second, and the trace has the tokens so far."""

from __future__ import annotations

import random
from pathlib import Path

from gateway.scripted import Fault
from tests.faults.agent import Leaves
from tests.faults.backend import Engine, Order
from tests.faults.load import at_once
from tests.faults.tally import Tally
from tests.faults.world import World, until, world

SECONDS = 1.0
"""In which a backend is to be let go."""


async def agents_that_leave(folder: Path, count: int) -> Tally:
    tally = Tally("D4", "the agent leaves: in prefill, in a stream, in a whole answer, in a buffered one", count)
    longest = 0.0
    for engine, part in (("vllm", count - count // 3), ("sglang", count // 3)):
        (folder / engine).mkdir()
        async with world(folder / engine, engines=[Engine(engine)]) as run:
            longest = max(longest, await _leave(run, tally, part))
            await run.idle()
            status = await run.ask("/api/admin/status")
            in_flight = status["calls"]["in_flight"], *(each["in_flight"] for each in status["backends"])
            tally.expect(not any(in_flight), f"in flight at the end: {in_flight}")
            tally.expect(run.engines[0].open == 0, f"{run.engines[0].open} calls are open at the backend")
            tally.add(await run.findings())
    tally.shown = {"calls in flight at the end": 0, "longest until the backend was let go, s": f"{longest:.2f}"}
    return tally


async def _leave(run: World, tally: Tally, count: int) -> float:
    """The longest time from an agent's leaving to its backend's end."""
    emissions = run.engines[0].emissions
    longest = 0.0

    async def play(at: int) -> None:
        nonlocal longest
        chance = random.Random(at)
        session = f"session-{at}"
        await run.call(session)
        stream = at % 3 != 1
        phase = chance.choice(("prefill", "body"))
        fault = Fault(delay=20.0) if phase == "prefill" else Fault(after_bytes=200, ending="hung")
        if phase == "body" and stream and run.engines[0].name == "vllm":
            fault = Fault(pause=0.03)
            leaves = _after_events(chance.randrange(1, 12))
            heard = await run.call(session, order=Order(fault, tokens=40), leaves=leaves)
        else:
            limit = chance.uniform(0.2, 0.5)
            heard = await run.call(session, order=Order(fault, tokens=40), stream=stream, limit=limit)
        tally.expect(heard.end == "left", f"call {heard.number} was to be left, and is {heard.end}")
        emission = next((each for each in emissions if each.number == heard.number), None)
        if emission is None:
            return  # It had not come so far.
        assert heard.ended is not None
        try:
            await until(lambda: emission.closed is not None, 10 * SECONDS)
        except TimeoutError:
            tally.broken.append(f"call {heard.number}: its backend was never let go")
        else:
            took = (emission.closed or 0.0) - heard.ended
            longest = max(longest, took)
            tally.expect(took <= SECONDS, f"call {heard.number}: its backend was let go after {took:.2f} s")
        await run.call(session)

    await at_once(play, count, most=8)
    await run.idle()
    left = {heard.number for heard in run.heard if heard.end == "left"}
    statuses = {row.number: row.status for row in await run.rows() if row.number in left}
    for number, status in statuses.items():
        tally.expect(status == "client_disconnected", f"call {number} is recorded as {status}")
    return longest


def _after_events(events: int) -> Leaves:
    return lambda heard: heard.body.count(b"data: ") >= events


async def test_agents_that_leave_have_their_backend_let_go_within_a_second(tmp_path: Path) -> None:
    """docs/promises.md D4."""
    tally = await agents_that_leave(tmp_path, 12)
    assert tally.clean, tally.complaints()
