"""What a call has held is free when its answer is out: nothing of it waits for the garbage collector."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.scripted import ScriptedServer, running
from tests.gateway.edge.wire import connected
from tests.gateway.harness import HELLO, gateway

BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": HELLO,
    "completions": {"model": "scripted", "prompt": "Say hello.", "max_tokens": 32},
    "messages": HELLO,
    "responses": {"model": "scripted", "input": "Say hello.", "max_output_tokens": 32},
}


@contextmanager
def collected() -> Iterator[Counter[str]]:
    """Which of our objects only the collector could free of what was made meanwhile."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = (type(each) for each in gc.garbage)
        found.update(
            kind.__qualname__ for kind in kinds if kind.__module__.startswith(("adapters", "gateway", "storage"))
        )
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: bytes, times: int) -> None:
    """Calls by hand, for a client leaves garbage of its own; and on one connection, which is some at its end."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(times):
        writer.write(head.encode() + body)
        told = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert told.startswith(b"http/1.1 200")
        length = told.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await (reader.readexactly(int(length)) if length else reader.readuntil(b"\r\n0\r\n\r\n"))
    await asyncio.sleep(0.1)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("dialect", BODIES)
async def test_a_call_leaves_nothing_to_the_collector(tmp_path: Path, dialect: str, stream: bool) -> None:
    path, body = f"/sessions/s1/v1/{dialect}", msgspec.json.encode({**BODIES[dialect], "stream": stream})
    async with (
        running(ScriptedServer("vllm")) as backend,
        gateway(tmp_path, backend) as served,
        connected(served.url) as (reader, writer),
    ):
        await ask(reader, writer, path, body, 3)  # What is made once.
        with collected() as found:
            await ask(reader, writer, path, body, 10)
    assert not found
