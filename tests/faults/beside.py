"""Good calls beside whatever happens to others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.scripted import Fault
from tests.faults.tally import Tally
from tests.faults.world import World


@asynccontextmanager
async def good_calls(run: World, tally: Tally) -> AsyncIterator[list[float]]:
    """Streams beside whatever happens; all are to be whole. Filled with the longest gap in each."""
    ended = asyncio.Event()
    gaps: list[float] = []

    async def play(at: int) -> None:
        while not ended.is_set():
            started = time.monotonic()
            heard = await run.call(f"good-{at}", fault=Fault(pause=0.02))
            gaps.append(time.monotonic() - started)
            tally.expect(heard.status == 200 and heard.end == "whole", f"good call {heard.number} got {heard.status}")
            if len(run.agent(f"good-{at}").messages) > 20:
                run.leave(f"good-{at}")

    calls = [asyncio.create_task(play(at)) for at in range(4)]
    yield gaps
    ended.set()
    await asyncio.gather(*calls)
    await run.idle()
