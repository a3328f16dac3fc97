"""SIGTERM, with a real process: calls end in the grace time, and those that don't have an end and a trace as well.

`STREAMS=500 make test ARGS=tests/gateway/test_stopping.py` is the long form (docs/promises.md D10).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.harness import CHAT, HELLO, events, traces_in

STREAMS = int(os.environ.get("STREAMS", "60"))


@dataclass(slots=True)
class Process:
    """A gateway of its own; its log once it has ended."""

    process: asyncio.subprocess.Process
    url: str
    log: str = field(default="")


@asynccontextmanager
async def served(
    tmp_path: Path, backend: str, *, stop_grace: float, stop_notice: float = 60.0
) -> AsyncIterator[Process]:
    ready = tmp_path / "ready.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "serve", "--port", "0", "--ready-file", str(ready)),
        *("--backend", f"{backend},engine=vllm,version=0.32.0", "--database", f"sqlite:///{tmp_path / 'rollouts.db'}"),
        env={
            "ROLLOUT_GATEWAY_STOP_GRACE": str(stop_grace),
            "ROLLOUT_GATEWAY_STOP_NOTICE": str(stop_notice),
            "PYTHONPATH": ":".join(sys.path),
        },
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(30):
            while not ready.exists():
                await asyncio.sleep(0.02)
        gateway = Process(process, json.loads(ready.read_text())["url"])
        yield gateway
        _, log = await asyncio.wait_for(process.communicate(), 30)
        gateway.log = log.decode()
    finally:
        if process.returncode is None:
            process.kill()


async def stream(gateway: Process) -> bytes:
    """What a call's agent gets, the gateway told to stop at its first byte."""
    body = b""
    async with (
        httpx.AsyncClient(base_url=gateway.url, timeout=30, trust_env=False) as agent,
        agent.stream("POST", CHAT, json={**HELLO, "stream": True}) as answer,
    ):
        async for data in answer.aiter_raw():
            if not body:
                gateway.process.send_signal(signal.SIGTERM)
            body += data
    return body


@pytest.mark.parametrize("fault", [Fault(), Fault(pause=0.1)], ids=["quick", "slow"])
async def test_a_stream_that_ends_within_the_grace_is_whole(tmp_path: Path, fault: Fault) -> None:
    server = ScriptedServer("vllm", fault=fault)
    async with running(server) as backend, served(tmp_path, backend, stop_grace=20) as gateway:
        body = await stream(gateway)
    assert events(body)[-1] == b"[DONE]"
    assert gateway.process.returncode == 0
    [trace] = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.fidelity) == ("ok", "exact")


async def test_what_outlasts_the_grace_ends_in_an_error_and_is_recorded_with_its_tokens(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", fault=Fault(after_frames=4, ending="hung"))
    async with running(server) as backend, served(tmp_path, backend, stop_grace=1) as gateway:
        body = await stream(gateway)
    last = json.loads(events(body)[-1])
    assert "stopping" in last["error"]["message"]
    assert b"[DONE]" not in body
    [trace] = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.fidelity) == ("interrupted", "partial")
    [choice] = trace.choices
    assert list(choice.token_ids or ()) == server.calls[0].told_of(0)
    assert gateway.process.returncode == 0
    # An orderly end: nothing of it is a defect.
    assert "Traceback" not in gateway.log


async def test_who_asks_whether_it_is_ready_learns_first_and_calls_are_served_meanwhile(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, served(tmp_path, backend, stop_grace=20, stop_notice=2) as gateway:

        async def ask(path: str, **call: object) -> int:
            # On a connection of its own, as a balancer's and as a new agent's.
            async with httpx.AsyncClient(base_url=gateway.url, timeout=30, trust_env=False) as client:
                return (await client.request("POST" if call else "GET", path, **call)).status_code  # type: ignore[arg-type]

        assert await ask("/readyz") == 200
        gateway.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            while await ask("/readyz") == 200:
                await asyncio.sleep(0.01)
        for _ in range(3):
            assert await ask(CHAT, json=HELLO) == 200
        assert await ask("/readyz") == 503
        assert gateway.process.returncode is None
        await asyncio.wait_for(gateway.process.wait(), 20)
        with pytest.raises(httpx.ConnectError):
            await ask("/readyz")
    assert gateway.process.returncode == 0
    assert [trace.status for trace in await traces_in(tmp_path / "rollouts.db")] == ["ok"] * 3


async def test_told_twice_it_hurries_and_still_records(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", fault=Fault(after_frames=4, ending="hung"))
    async with running(server) as backend, served(tmp_path, backend, stop_grace=60) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=30, trust_env=False) as client:
            await client.get("/readyz")
        calling = asyncio.create_task(stream(gateway))
        while not server.calls or not server.calls[0].told:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
        assert gateway.process.returncode is None
        gateway.process.send_signal(signal.SIGINT)
        body = await calling
        assert await asyncio.wait_for(gateway.process.wait(), 20) == 0
    assert "stopping" in json.loads(events(body)[-1])["error"]["message"]
    [trace] = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.fidelity) == ("interrupted", "partial")


@pytest.mark.timeout(60 + STREAMS // 4)
async def test_of_many_streams_those_that_end_in_time_are_whole_and_each_other_is_recorded(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    server.faults.extend([Fault(pause=0.06), Fault(after_frames=4, ending="hung")] * (STREAMS // 2))
    begun = asyncio.Semaphore(0)

    async def agent(gateway: Process) -> bytes:
        body = b""
        async with (
            httpx.AsyncClient(base_url=gateway.url, timeout=60, trust_env=False) as client,
            client.stream("POST", CHAT, json={**HELLO, "stream": True}) as answer,
        ):
            async for data in answer.aiter_raw():
                if not body:
                    begun.release()
                body += data
        return body

    async with running(server) as backend, served(tmp_path, backend, stop_grace=6) as gateway:
        agents = [asyncio.create_task(agent(gateway)) for _ in range(STREAMS)]
        for _ in range(STREAMS):
            await begun.acquire()
        gateway.process.send_signal(signal.SIGTERM)
        bodies = await asyncio.gather(*agents)
    assert gateway.process.returncode == 0
    whole = [body for body in bodies if events(body)[-1] == b"[DONE]"]
    cut = [body for body in bodies if b"stopping" in events(body)[-1]]
    assert (len(whole), len(cut)) == (STREAMS // 2, STREAMS // 2)
    traces = await traces_in(tmp_path / "rollouts.db", limit=STREAMS + 1)
    assert sorted(trace.status for trace in traces) == ["interrupted"] * (STREAMS // 2) + ["ok"] * (STREAMS // 2)
    assert {trace.fidelity for trace in traces if trace.status == "ok"} == {"exact"}
    ids = [list(trace.choices[0].token_ids or ()) for trace in traces if trace.status == "interrupted"]
    told = [call.told_of(0) for call in server.calls if call.finished is None]
    assert sorted(ids) == sorted(told)
