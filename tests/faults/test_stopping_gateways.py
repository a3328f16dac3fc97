"""D10: SIGTERM with many live streams. Not ready first; who can finish does; the rest is told, and recorded."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import httpx

from gateway.scripted import Fault
from tests.faults.backend import Order
from tests.faults.said import said
from tests.faults.tally import Tally
from tests.faults.world import World, until, world

_HELD = Fault(after_frames=8, ending="hung", pause=0.02)


async def gateways_that_stop(folder: Path, count: int) -> Tally:
    """`count` streams: every third hangs, the others take a second or more."""
    tally = Tally("D10", "SIGTERM with live streams", count)
    grace = 3 + count // 40
    async with world(folder, settings={"stop_grace": grace, "stop_notice": 1}) as run:
        slow = Fault(pause=0.1 + count / 5000)
        orders = [Order(_HELD if at % 3 == 0 else slow, tokens=12) for at in range(count)]
        calls = [asyncio.create_task(run.call(f"session-{at}", order=order)) for at, order in enumerate(orders)]
        await until(lambda: len(run.engines[0].emissions) == count, 60)
        await asyncio.sleep(0.3)
        seen: list[int] = []
        watch = asyncio.create_task(_readiness(run, seen))
        await until(lambda: seen, 60)
        live = sum(not call.done() for call in calls)
        run.gateway.signal(signal.SIGTERM)
        heard = await asyncio.gather(*calls)
        status = await run.gateway.stop()
        tally.expect(status == 0, f"it ended with {status}:\n{run.gateway.log[-1000:]}")
        await watch
        tally.expect(seen[:1] == [200] and 503 in seen, f"`/readyz` said {seen} and then nothing")
        await run.gateway.start()
        tally.add(await run.findings())
        by_number = {row.number: row for row in await run.rows()}
        for order, each in zip(orders, heard, strict=True):
            row, told = by_number[each.number], said(each)
            if order.fault is _HELD:
                tally.expect(told.error is not None, f"call {each.number} was cut and was told no error")
                tally.expect(row.status == "interrupted", f"call {each.number} was cut and is recorded as {row.status}")
                tally.expect(told.text != "" and row.text.startswith(told.text), f"call {each.number} lost its tokens")
            else:
                tally.expect(told.done, f"call {each.number} had the time to finish and did not")
        tally.shown = {"live at the signal": live}
    return tally


async def _readiness(run: World, seen: list[int]) -> None:
    """What a balancer sees until there is nobody, by a connection that it has open already."""
    async with httpx.AsyncClient(base_url=run.gateway.url, timeout=5, trust_env=False) as client:
        while True:
            try:
                status = (await client.get("/readyz")).status_code
            except httpx.TransportError:
                return
            if seen[-1:] != [status]:
                seen.append(status)
            await asyncio.sleep(0.02)


async def test_a_gateway_that_is_told_to_stop_lets_streams_finish_and_records_the_rest(tmp_path: Path) -> None:
    """docs/promises.md D10."""
    tally = await gateways_that_stop(tmp_path, 36)
    assert tally.clean, tally.complaints()
