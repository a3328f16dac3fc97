"""What an agent may see before its trace is committed (docs/promises.md B2), shown by a database that is locked."""

from __future__ import annotations

import asyncio
import json
import resource
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from adapters.scripts.replies import of_length
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import CHAT, HELLO, events, gateway

TOKENS = 6


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Nobody else writes until this ends."""
    db = sqlite3.connect(database, isolation_level=None)
    try:
        db.execute("begin immediate")
        yield
        db.execute("rollback")
    finally:
        db.close()


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """A disk with little room, for this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def _until(stream: bytes, chunks: AsyncIterator[bytes], count: int) -> bytes:
    while stream.count(b'"content":" ') < count:
        stream += await anext(chunks)
    return stream


async def test_no_end_comes_before_its_trace_is_committed(tmp_path: Path) -> None:
    """Text is not held; from the chunk that ends the last choice on everything is, and a whole answer altogether."""
    server = ScriptedServer("vllm", reply=of_length(TOKENS))
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        await served.chat()
        with locked(served.database):
            sent = served.agent.build_request("POST", CHAT, json={**HELLO, "stream": True})
            response = await served.agent.send(sent, stream=True)
            chunks = response.aiter_raw()
            stream = await _until(b"", chunks, TOKENS - 1)
            ending = asyncio.ensure_future(anext(chunks))
            await server.settled()
            assert (await asyncio.wait([ending], timeout=0.3))[0] == set()
            assert b'"finish_reason":"stop"' not in stream
            assert served.statuses() == [("ok", "exact")]
        stream += await ending
        assert served.statuses() == [("ok", "exact")] * 2
        stream += b"".join([data async for data in chunks])
        assert events(stream)[-1] == b"[DONE]"
        assert b'"finish_reason":"stop"' in stream


async def test_no_status_line_of_a_whole_answer_comes_before_its_trace_is_committed(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", reply=of_length(TOKENS))
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        await served.chat()
        with locked(served.database):
            sent = served.agent.build_request("POST", CHAT, json=HELLO)
            answering = asyncio.create_task(served.agent.send(sent, stream=True))
            while len(server.calls) < 2:
                await asyncio.sleep(0.005)
            await server.settled()
            assert (await asyncio.wait([answering], timeout=0.3))[0] == set()
        response: httpx.Response = await answering
        assert served.statuses() == [("ok", "exact")] * 2
        assert json.loads(await response.aread())["choices"]


@pytest.mark.parametrize("stream", [False, True])
async def test_without_a_record_there_is_no_clean_end(tmp_path: Path, stream: bool) -> None:
    server = ScriptedServer("vllm", reply=of_length(TOKENS))
    with no_file_larger_than(8 << 20):  # As each of a spool's is.
        async with running(server) as backend, gateway(tmp_path, backend, commit_timeout=0.2) as served:
            await served.chat()
            with locked(served.database):
                response = await served.chat(stream=stream)
        if stream:
            assert json.loads(events(response.content)[-1])["error"]["message"]
            assert b"[DONE]" not in response.content
        else:
            assert (response.status_code, response.headers["x-should-retry"]) == (503, "true")
            assert response.json()["error"]["message"]
