"""SIGTERM, with a real process: calls end in the grace time, and those that don't have an end and a trace as well."""

from __future__ import annotations

import asyncio
import json
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


@dataclass(slots=True)
class Process:
    """A gateway of its own; its log once it has ended."""

    process: asyncio.subprocess.Process
    url: str
    log: str = field(default="")


@asynccontextmanager
async def served(tmp_path: Path, backend: str, *, stop_grace: int) -> AsyncIterator[Process]:
    ready = tmp_path / "ready.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "serve", "--port", "0", "--ready-file", str(ready)),
        *("--backend", f"{backend},engine=vllm,version=0.32.0", "--database", f"sqlite:///{tmp_path / 'rollouts.db'}"),
        env={"ROLLOUT_GATEWAY_STOP_GRACE": str(stop_grace), "PYTHONPATH": ":".join(sys.path)},
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
