"""Agents that leave (docs/promises.md D4): whatever the phase, the backend is let go, and what came is kept."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.scripts.replies import of_length
from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.harness import CHAT, HELLO, Running, gateway, traces_in, until

LONG: dict[str, Any] = {**HELLO, "max_tokens": 400}
SECONDS = 1.0
"""In which a backend is to be let go."""

PREFILL = Fault(delay=20.0)
# A whole answer that stops in its middle, and a stream that takes its time.
IN_A_BODY = Fault(after_bytes=700, ending="hung")
IN_A_STREAM = Fault(pause=0.02)

# Engine and version, whether the agent asks for a stream, the plan that comes of it, and where the call is left.
PHASES = {
    "streamed, in prefill": ("vllm", "0.33.0", True, "streamed", PREFILL),
    "streamed, in the stream": ("vllm", "0.33.0", True, "streamed", IN_A_STREAM),
    "whole, in prefill": ("vllm", "0.33.0", False, "whole", PREFILL),
    "whole, in the body": ("vllm", "0.33.0", False, "whole", IN_A_BODY),
    "buffered, in prefill": ("sglang", "0.5.23", True, "buffered", PREFILL),
    "buffered, in the body": ("sglang", "0.5.23", True, "buffered", IN_A_BODY),
}


async def _leave(served: Running, server: ScriptedServer, *, stream: bool, fault: Fault, seen: int = 0) -> None:
    """Call, and close the connection as soon as the server is at work and so many events have come."""
    server.faults.append(fault)
    before = len(server.calls)
    calling = asyncio.create_task(_call(served.url, stream=stream, seen=seen))
    await until(lambda: len(server.calls) > before)
    if seen == 0:
        at_work = server.calls[-1]
        if fault.delay == 0.0:
            await until(lambda: at_work.status is not None)
            await asyncio.sleep(0.05)
        calling.cancel()
    with suppress(asyncio.CancelledError):
        await calling


async def _call(url: str, *, stream: bool, seen: int) -> None:
    async with (
        httpx.AsyncClient(trust_env=False, timeout=30) as agent,
        agent.stream("POST", url + CHAT, json={**LONG, "stream": stream}) as response,
    ):
        told = b""
        async for data in response.aiter_raw():
            told += data
            if told.count(b"data: ") >= seen:
                return


def _connections_to(url: str) -> int:
    """How many connections to this port of loopback are open, from the caller's side."""
    port = int(url.rpartition(":")[2])
    wanted, established = f"0100007F:{port:04X}", "01"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2] == wanted and row[3] == established for row in rows)


async def _in_flight(served: Running) -> tuple[int, int]:
    """Calls that the gateway is at, and those that it counts for the backend."""
    status = (await served.agent.get("/api/admin/status")).json()
    return status["calls"]["in_flight"], status["backends"][0]["in_flight"]


@pytest.mark.parametrize("phase", PHASES)
async def test_the_backend_is_let_go_within_a_second_and_the_pool_is_empty(tmp_path: Path, phase: str) -> None:
    engine, version, stream, plan, fault = PHASES[phase]
    server = ScriptedServer(engine, version=version, reply=of_length(400))
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        assert (await served.chat()).status_code == 200
        idle = _connections_to(backend)
        for _ in range(3):
            await _leave(served, server, stream=stream, fault=fault, seen=6 if fault is IN_A_STREAM else 0)
            await until(lambda: not server.calls[-1].open, SECONDS)
            assert server.calls[-1].gone is not None
        await until(lambda: [status for status, _ in served.statuses()[1:]] == ["client_disconnected"] * 3)
        assert await _in_flight(served) == (0, 0)
        # Connections that were cut are gone, and none that serves is left behind for each.
        await until(lambda: _connections_to(backend) <= idle, SECONDS)
        assert (await served.chat()).status_code == 200
    _, *traces, _ = await traces_in(tmp_path / "rollouts.db")
    for trace, call in zip(traces, server.calls[1:], strict=False):
        assert (trace.plan, trace.http_status) == (plan, None)
        ids = [token_id for choice in trace.choices for token_id in choice.token_ids or ()]
        if fault is IN_A_STREAM:
            assert (trace.fidelity, ids) == ("partial", call.told_of(0)[: len(ids)])
            assert len(ids) >= 4
        else:
            assert (trace.fidelity, ids) == ("none", [])


async def test_who_leaves_while_a_busy_backend_is_waited_for_is_not_waited_for(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    busy = Fault(status=429, headers={"retry-after": "20"}, body=b'{"error": {"message": "busy"}}')
    async with running(server) as backend, gateway(tmp_path, backend, busy_wait=60) as served:
        server.faults.append(busy)
        calling = asyncio.create_task(_call(served.url, stream=True, seen=0))
        await until(lambda: server.calls and server.calls[0].finished)
        await asyncio.sleep(0.1)
        calling.cancel()
        with suppress(asyncio.CancelledError):
            await calling
        await until(lambda: served.statuses() == [("client_disconnected", "none")], SECONDS)
        assert await _in_flight(served) == (0, 0)
    [trace] = await traces_in(tmp_path / "rollouts.db")
    assert [attempt.status for attempt in trace.attempts] == [429]
    assert len(server.calls) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_who_leaves_between_keep_alives_leaves_nothing_running(tmp_path: Path, *, stream: bool) -> None:
    server = ScriptedServer("vllm", fault=Fault(delay=20.0))
    flags = {"keepalive_interval": 0.05, "keepalive_whole": True}
    async with running(server) as backend, gateway(tmp_path, backend, **flags) as served:
        async with (
            httpx.AsyncClient(trust_env=False, timeout=30) as agent,
            agent.stream("POST", served.url + CHAT, json={**LONG, "stream": stream}) as response,
        ):
            assert response.status_code == 200
            async for _ in response.aiter_raw():
                break
        await until(lambda: not server.calls[-1].open, SECONDS)
        await until(lambda: served.statuses() == [("client_disconnected", "none")], SECONDS)
        assert await _in_flight(served) == (0, 0)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_who_leaves_while_the_end_waits_for_the_commit_has_an_answer_that_is_recorded(
    tmp_path: Path, *, stream: bool
) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        assert (await served.chat()).status_code == 200
        tasks = len(asyncio.all_tasks())
        with closing(sqlite3.connect(served.database, isolation_level=None)) as other:
            other.execute("begin immediate")  # Nobody else can write now.
            calling = asyncio.create_task(_call(served.url, stream=stream, seen=10_000))
            await until(lambda: len(server.calls) == 2 and server.calls[1].finished)
            await asyncio.sleep(0.1)
            assert not calling.done()
            calling.cancel()
            with suppress(asyncio.CancelledError):
                await calling
            assert not server.calls[1].open
            other.execute("rollback")
        await until(lambda: [status for status, _ in served.statuses()] == ["ok", "ok"])
        assert await _in_flight(served) == (0, 0)
        await until(lambda: len(asyncio.all_tasks()) <= tasks)
