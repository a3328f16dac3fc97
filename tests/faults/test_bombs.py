"""D16: compressed bodies that nobody asked for, from strangers and from backends, are not opened."""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path
from typing import Final

from gateway.scripted import Fault
from tests.faults.backend import Order
from tests.faults.load import at_once
from tests.faults.raw import post, statuses
from tests.faults.records import Heard
from tests.faults.said import said
from tests.faults.tally import Tally
from tests.faults.world import world

_PATH: Final = "/sessions/stranger/v1/chat/completions"
_MEGABYTE: Final = 1 << 20


async def bombs(folder: Path, count: int) -> Tally:
    """Compressed bodies that nobody asked for, from strangers and from backends."""
    tally = Tally("D16", "compressed bombs, inbound and from a backend", count)
    # A quarter of a megabyte, and a thousand times that when it is opened.
    bomb = gzip.compress(bytes(256 * _MEGABYTE), 9)
    async with world(folder) as run:
        await run.call("warm")
        before = run.gateway.resident()
        bad: list[Heard] = []

        async def play(at: int) -> None:
            chance = random.Random(at)
            coding, data = chance.choice((("gzip", bomb), ("deflate", zlib.compress(bytes(_MEGABYTE))), ("br", b"?")))
            if at % 2:
                told = await statuses(run.gateway.port, post(_PATH, data, b"content-encoding: " + coding.encode()))
                tally.expect(told == [415], f"a request in {coding} got {told}")
                return
            fault = Fault(headers={"content-encoding": coding}, body=data)
            bad.append(await run.call(f"session-{at}", order=Order(fault, sound=False), stream=chance.random() < 0.5))

        await at_once(play, count, most=4)
        await run.idle()
        for heard in bad:
            tally.expect(not said(heard).finished, f"call {heard.number} has an answer of a compressed body")
        grown = (run.gateway.resident() - before) // _MEGABYTE
        tally.expect(grown < 128, f"memory grew by {grown} MB")
        rows = [row for row in await run.rows() if row.session_id != "stranger"]
        tally.add(run.ledger(rows).findings())
        tally.shown = {"memory grew by, MB": grown}
    return tally


async def test_a_compressed_bomb_is_not_opened(tmp_path: Path) -> None:
    """docs/promises.md D16."""
    tally = await bombs(tmp_path, 8)
    assert tally.clean, tally.complaints()
