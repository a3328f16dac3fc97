"""As many calls at a time as callers make (docs/promises.md F9): nothing between agent and backend is a queue.

`python -m benchmarks.concurrency` says how long they take.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from gateway.commands.descriptors import raise_descriptor_limit
from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.edge.wire import connected, request
from tests.gateway.harness import gateway, until

CALLS = 600


@pytest.mark.skipif(raise_descriptor_limit() < 5 * CALLS, reason="too few file descriptors")
async def test_six_hundred_calls_are_at_their_backend_at_the_same_time(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", fault=Fault(delay=60.0))
    async with (
        running(server) as backend,
        gateway(tmp_path, f"{backend},engine=vllm,version=0.32.0") as served,
        AsyncExitStack() as agents,
    ):
        readers = []
        for _ in range(CALLS):
            reader, writer = await agents.enter_async_context(connected(served.url))
            writer.write(request())
            readers.append(reader)
        await until(lambda: sum(call.open for call in server.calls) == CALLS, 60)
        assert not any(reader.at_eof() for reader in readers)
        await agents.aclose()
        await until(lambda: not any(call.open for call in server.calls), 60)
