"""D1: a backend dies in the middle of its answer. The agent is told no end, and the trace has every token that came."""

from __future__ import annotations

import random
from pathlib import Path

from gateway.scripted import Fault
from tests.faults.backend import Engine
from tests.faults.load import at_once
from tests.faults.records import Heard
from tests.faults.said import said
from tests.faults.tally import Tally
from tests.faults.world import World, world

_ENGINES = ("vllm", "sglang", "dynamo")


async def backends_that_die(folder: Path, count: int) -> Tally:
    tally = Tally("D1", "the backend dies in mid-answer, three engines", count)
    for at, engine in enumerate(_ENGINES):
        (folder / engine).mkdir()
        async with world(folder / engine, engines=[Engine(engine)]) as run:
            await _die(run, tally, count // len(_ENGINES) + (at < count % len(_ENGINES)))
    return tally


async def _die(run: World, tally: Tally, count: int) -> None:
    cut: list[Heard] = []

    async def play(at: int) -> None:
        """A sound call, one that is cut somewhere, and a sound one, which goes on from the first."""
        chance = random.Random(at)
        session = f"session-{at}"
        await run.call(session, stream=chance.random() < 0.5)
        ending = chance.choice(("closed", "reset"))
        stream = chance.random() < 0.7
        # A pause lets each frame arrive before a reset throws away what was not read.
        fault = (
            Fault(after_frames=chance.randrange(2, 7), ending=ending, pause=0.01)
            if stream and run.engines[0].name != "sglang"
            else Fault(after_bytes=chance.randrange(1, 400), ending=ending)
        )
        cut.append(await run.call(session, fault=fault, stream=stream))
        await run.call(session)

    await at_once(play, count)
    await run.idle()
    rows = await run.rows()
    tally.add(run.ledger(rows).findings())
    by_number = {row.number: row for row in rows}
    for heard in cut:
        row, tried = by_number[heard.number], [e for e in run.engines[0].emissions if e.number == heard.number]
        tally.expect(not said(heard).finished, f"call {heard.number} was told an end that nobody gave")
        tally.expect(said(heard).error is not None, f"call {heard.number} was told no error")
        tally.expect(row.status == "backend_error", f"call {heard.number} is recorded as {row.status}")
        tally.expect(len(tried) == 1, f"call {heard.number} was asked {len(tried)} times")
        if row.plan == "streamed":
            tally.expect(
                len(row.ids) == tried[0].told, f"call {heard.number}: {len(row.ids)} of {tried[0].told} tokens"
            )


async def test_a_backend_that_dies_in_mid_answer_leaves_every_token_that_came_and_no_made_up_end(
    tmp_path: Path,
) -> None:
    """docs/promises.md D1."""
    tally = await backends_that_die(tmp_path, 12)
    assert tally.clean, tally.complaints()
