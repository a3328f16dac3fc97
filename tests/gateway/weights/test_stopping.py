"""SIGTERM during a pause, with a real process: held calls have the grace, and then an end and a trace."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import httpx

from gateway.scripted import running
from tests.gateway.harness import CHAT, HELLO, traces_in
from tests.gateway.test_stopping import Process, served
from tests.gateway.weights.trained import Trained


async def _held(gateway: Process, agent: httpx.AsyncClient, stream: bool) -> asyncio.Task[httpx.Response]:
    """A call that waits for the end of a pause."""
    await agent.post("/api/admin/pause", json={"pause_id": "p"})
    call = asyncio.create_task(agent.post(CHAT, json={**HELLO, "stream": stream}))
    async with asyncio.timeout(20):
        while not (await agent.get("/api/admin/pause")).json()["items"][0]["held"]:
            await asyncio.sleep(0.02)
    gateway.process.send_signal(signal.SIGTERM)
    return call


async def test_a_held_call_is_told_to_try_again_when_the_gateway_stops(tmp_path: Path) -> None:
    engine = Trained()
    async with (
        running(engine) as backend,
        served(tmp_path, backend, stop_grace=0.5, stop_notice=0.0) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=30, trust_env=False) as agent,
    ):
        answer = await (await _held(gateway, agent, stream=False))
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "gateway_stopping")
    assert answer.headers["x-should-retry"] == "true"
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.backend, engine.calls) == ("interrupted", None, [])
    assert trace.metadata["held_s"] > 0


async def test_a_held_call_that_goes_on_within_the_grace_is_whole(tmp_path: Path) -> None:
    """The pause was short, and its end comes by its time."""
    engine = Trained()
    async with (
        running(engine) as backend,
        served(tmp_path, backend, stop_grace=20.0, stop_notice=0.0) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=30, trust_env=False) as agent,
    ):
        await agent.post("/api/admin/pause", json={"pause_id": "p", "ttl": 2.0})
        call = asyncio.create_task(agent.post(CHAT, json={**HELLO, "stream": True}))
        await asyncio.sleep(0.3)
        gateway.process.send_signal(signal.SIGTERM)
        answer = await call
    assert answer.content.endswith(b"data: [DONE]\n\n")
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.fidelity) == ("ok", "exact")
