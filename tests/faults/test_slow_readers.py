"""D6: agents that stop reading hold their backend up, and not the gateway's memory, nor other agents."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from tests.faults.backend import Order
from tests.faults.records import Heard
from tests.faults.tally import Tally
from tests.faults.world import World, world

# 30 MB of text, and so many bytes around each token.
_LONG: Final = Order(tokens=3000, padding=10_000)
_MEGABYTE: Final = 1 << 20
_SEEN: Final = 100_000
"""Bytes after which an agent stops reading."""
_MOST: Final = 4 * _MEGABYTE
"""Of an answer that the gateway may have taken from its backend and not handed on to the kernel."""
_PAUSE: Final = 0.5


async def slow_readers(folder: Path, count: int) -> Tally:
    """One after the other, for the kernel's buffers are told apart by their ports alone."""
    tally = Tally("D6", "agents that stop reading in long streams", count)
    held: list[int] = []
    async with world(folder) as run:
        for at in range(count):
            reader = _Reader(run, tally, f"beside-{at}", held)
            heard = await run.call(f"slow-{at}", order=_LONG, waits=reader.waits, limit=300.0)
            tally.expect(heard.end == "whole", f"call {heard.number} was not read to its end: {heard.end}")
            run.leave(f"slow-{at}")
        await run.idle()
        tally.add(await run.findings())
    tally.shown = {"most that the gateway held of 30 MB while nobody read it, MB": f"{max(held) / _MEGABYTE:.1f}"}
    return tally


class _Reader:
    """Stops once, for a while, and looks on."""

    def __init__(self, run: World, tally: Tally, beside: str, held: list[int]) -> None:
        self._run = run
        self._tally = tally
        self._beside = beside
        self._held = held
        self._stopped = False

    async def waits(self, heard: Heard) -> None:
        if self._stopped or len(heard.body) < _SEEN:
            return
        self._stopped = True
        (emission,) = (each for each in self._run.engines[0].emissions if each.number == heard.number)
        before = -1
        # What is on its way goes on until every buffer is full: those of this machine's kernel may have tens of MB.
        while before != emission.told:
            before = emission.told
            quick = await self._run.call(self._beside)
            self._tally.expect(quick.status == 200, f"call {quick.number}, beside a slow one, got {quick.status}")
            await asyncio.sleep(_PAUSE)
        taken = emission.told * _LONG.padding - _in_kernel(self._run.engines[0].port)
        passed_on = len(heard.body) + _in_kernel(self._run.gateway.port)
        self._held.append(max(0, taken - passed_on))
        what = f"{self._held[-1] / _MEGABYTE:.1f} MB were held of an answer that nobody read"
        self._tally.expect(self._held[-1] < _MOST, f"call {heard.number}: {what}")


def _in_kernel(port: int) -> int:
    """Bytes that connections to this port of loopback have sent, and nobody has read."""
    total = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        to_send, to_read = (int(part, 16) for part in queues.split(":"))
        total += to_send if local.endswith(f":{port:04X}") else to_read if remote.endswith(f":{port:04X}") else 0
    return total


async def test_who_stops_reading_holds_up_its_own_backend_alone(tmp_path: Path) -> None:
    """docs/promises.md D6."""
    tally = await slow_readers(tmp_path, 1)
    assert tally.clean, tally.complaints()
