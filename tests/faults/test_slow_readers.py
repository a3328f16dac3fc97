"""D6: agents that stop reading hold their backend up, and not the gateway's memory, nor other agents."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from tests.faults.backend import Order
from tests.faults.load import at_once
from tests.faults.records import Heard
from tests.faults.tally import Tally
from tests.faults.world import World, world

# 30 MB of text: more than all sockets between a backend and its agent hold.
_LONG: Final = Order(tokens=3000, padding=10_000)
_SEEN: Final = 100_000
"""Bytes after which an agent stops reading."""
_PAUSE: Final = 1.0
_AT_ONCE: Final = 4


async def slow_readers(folder: Path, count: int) -> Tally:
    tally = Tally("D6", "agents that stop reading in long streams", count)
    taken: list[float] = []
    async with world(folder) as run:
        before = run.gateway.resident()

        async def play(at: int) -> None:
            reader = _Reader(run, tally, f"beside-{at}", taken)
            heard = await run.call(f"slow-{at}", order=_LONG, waits=reader.waits, limit=300.0)
            tally.expect(heard.end == "whole", f"call {heard.number} was not read to its end: {heard.end}")

        await at_once(play, count, most=_AT_ONCE)
        await run.idle()
        tally.add(await run.findings())
        tally.shown = {
            "most of an answer taken from its backend while nobody read it": f"{max(taken):.0%}",
            "memory before and after, MB": f"{before >> 20}, {run.gateway.resident() >> 20}",
        }
    return tally


class _Reader:
    """Stops once, for a while, and looks on."""

    def __init__(self, run: World, tally: Tally, beside: str, taken: list[float]) -> None:
        self._run = run
        self._tally = tally
        self._beside = beside
        self._taken = taken
        self._stopped = False

    async def waits(self, heard: Heard) -> None:
        if self._stopped or len(heard.body) < _SEEN:
            return
        self._stopped = True
        (emission,) = (each for each in self._run.engines[0].emissions if each.number == heard.number)
        await asyncio.sleep(_PAUSE)
        before = emission.told
        quick = await self._run.call(self._beside)
        self._tally.expect(quick.status == 200, f"call {quick.number}, beside a slow one, got {quick.status}")
        await asyncio.sleep(_PAUSE)
        part = emission.told / _LONG.tokens
        self._taken.append(part)
        self._tally.expect(
            emission.told == before and part < 0.7,
            f"call {heard.number}: {part:.0%} left the backend while nobody read it, {before} tokens at first",
        )


async def test_who_stops_reading_holds_up_its_own_backend_alone(tmp_path: Path) -> None:
    """docs/promises.md D6."""
    tally = await slow_readers(tmp_path, 2)
    assert tally.clean, tally.complaints()
