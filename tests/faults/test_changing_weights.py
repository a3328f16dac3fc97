"""D17: the weights change while answers are sampled. Each token has its version, or the trace says `mixed`."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from gateway.scripted import Fault
from tests.faults.backend import Engine, Order
from tests.faults.load import at_once
from tests.faults.tally import Tally
from tests.faults.world import TOKENS, World, world

# The second and the last tell nothing of their weights.
_ENGINES = (Engine("vllm"), Engine("vllm", version="0.20.2"), Engine("sglang"), Engine("dynamo"))


async def weights_that_change(folder: Path, count: int) -> Tally:
    tally = Tally("D17", "the weights change while streams run", count)
    mixed = 0
    for at, engine in enumerate(_ENGINES):
        part = count // len(_ENGINES) + (at < count % len(_ENGINES))
        place = folder / f"engine-{at}"
        place.mkdir()
        # With a ledger of its own, however often this is played.
        async with world(place, engines=[Engine(engine.name, version=engine.version)]) as run:
            await _play(run, part)
            tally.add(await run.findings())
            mixed += sum(row.weight_version == "mixed" for row in await run.rows())
    tally.expect(mixed > 0 or count < len(_ENGINES), "no answer was sampled by two versions: this showed nothing")
    tally.shown = {"mixed": mixed}
    return tally


async def _play(run: World, count: int) -> None:
    changing = asyncio.create_task(_change(run.engines[0]))

    async def play(at: int) -> None:
        chance = random.Random(at)
        for turn in range(3):
            pause = Fault(pause=chance.uniform(0.0, 0.004))
            changes_at = chance.randrange(1, TOKENS) if turn == 1 else None
            await run.call(f"session-{at}", order=Order(pause, changes_at=changes_at), stream=chance.random() < 0.6)

    try:
        await at_once(play, count)
    finally:
        changing.cancel()
    await run.idle()


async def _change(engine: Engine) -> None:
    """Another version every few milliseconds."""
    for version in range(1_000_000):
        engine.weights = f"step-{version}"
        await asyncio.sleep(0.005)


async def test_each_token_has_the_weights_that_sampled_it(tmp_path: Path) -> None:
    """docs/promises.md D17."""
    tally = await weights_that_change(tmp_path, 12)
    assert tally.clean, tally.complaints()
