"""D5: thousands of connections send a byte now and then, and never a request. Good calls do not notice."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

from tests.faults.beside import good_calls
from tests.faults.tally import Tally
from tests.faults.world import world


async def slow_strangers(folder: Path, count: int) -> Tally:
    """So many connections that send a byte now and then, and never a request."""
    tally = Tally("D5", "connections that trickle", count)
    async with world(folder, settings={"receive_timeout": 2}) as run:
        async with good_calls(run, tally):
            strangers = [asyncio.create_task(_trickle(run.gateway.port)) for _ in range(count)]
            lived = await asyncio.gather(*strangers)
        tally.expect(max(lived) < 20, f"a connection that sent no request lived for {max(lived):.0f} s")
        tally.add(await run.findings())
        tally.shown = {"calls served meanwhile": len(run.heard), "the longest that one lived, s": f"{max(lived):.1f}"}
    return tally


async def _trickle(port: int) -> float:
    """Seconds until the gateway had enough."""
    started = time.monotonic()
    try:
        _, writer = reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return 0.0
    try:
        with suppress(OSError):
            for byte in b"POST /v1/chat/completions HTTP/1.1\r\nx-slow: " + b"z" * 60:
                writer.write(bytes([byte]))
                if reader.at_eof() or writer.is_closing():
                    break
                await asyncio.sleep(0.25)
    finally:
        writer.transport.abort()
    return time.monotonic() - started


async def test_good_calls_are_served_beside_connections_that_trickle(tmp_path: Path) -> None:
    """docs/promises.md D5."""
    tally = await slow_strangers(tmp_path, 100)
    assert tally.clean, tally.complaints()
