"""Two gateways on one PostgreSQL behind nginx, as compose.yaml has them; one is killed under load."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from gateway.scripted import Fault, ScriptedServer, running
from tests.deploy.nginx import in_front_of
from tests.gateway.harness import CHAT, HELLO
from tests.postgres import Postgres

AGENTS = 6
WARM_S = 1.0
AFTER_S = 2.5


@dataclass(frozen=True, slots=True)
class Call:
    """How a call of an agent went, and when it had begun."""

    began: float
    status: int | None
    """Null where the connection broke off."""
    trace_id: str | None


@asynccontextmanager
async def gateway(
    folder: Path, name: str, database: str, backend: str
) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """The URL and the process of a gateway of its own."""
    ready = folder / f"{name}.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "serve", "--port", "0", "--ready-file", str(ready), "--database", database),
        *("--backend", f"{backend},engine=vllm,version=0.32.0", "--spool", str(folder / name), "--log-level", "error"),
        env={"PYTHONPATH": ":".join(sys.path), "PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(60):
            while not ready.exists():
                assert process.returncode is None
                await asyncio.sleep(0.02)
        yield json.loads(ready.read_text())["url"], process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def agent(proxy: str, name: str, until: asyncio.Event, calls: list[Call]) -> None:
    """Call after call in one session. A connection of its own each, so that no call depends on another."""
    while not until.is_set():
        began = time.monotonic()
        try:
            async with httpx.AsyncClient(base_url=proxy, timeout=30, trust_env=False) as client:
                answer = await client.post(f"/sessions/{name}{CHAT}", json={**HELLO, "stream": len(calls) % 2 == 0})
            whole = answer.status_code == 200 and b'"error"' not in answer.content
            calls.append(Call(began, 200 if whole else answer.status_code + 1_000, answer.headers.get("x-trace-id")))
        except httpx.TransportError:
            calls.append(Call(began, None, None))


async def test_a_gateway_that_is_killed_takes_no_call_with_it_that_it_had_not_begun(
    tmp_path: Path, postgres: Postgres
) -> None:
    database = postgres.database()
    calls: list[Call] = []
    server = ScriptedServer("vllm", version="0.32.0", fault=Fault(pause=0.005))
    async with (
        running(server) as backend,
        gateway(tmp_path, "one", database, backend) as (one, doomed),
        gateway(tmp_path, "other", database, backend) as (other, _),
        in_front_of(tmp_path, one, other) as proxy,
    ):
        until = asyncio.Event()
        agents = [asyncio.create_task(agent(proxy, f"s{number}", until, calls)) for number in range(AGENTS)]
        await asyncio.sleep(WARM_S)
        doomed.kill()
        await doomed.wait()  # Until then its sockets take what comes.
        killed = time.monotonic()
        await asyncio.sleep(AFTER_S)
        until.set()
        await asyncio.gather(*agents)
        async with httpx.AsyncClient(base_url=other, timeout=30, trust_env=False) as trainer:
            recorded: dict[str, str] = {}
            for number in range(AGENTS):
                page = (await trainer.get(f"/api/sessions/s{number}/traces?limit=1000")).json()
                recorded |= {each["trace_id"]: each["status"] for each in page["items"]}
                turns = [each["turn"] for each in page["items"]]
                assert turns == sorted(set(turns))
    failed = [call for call in calls if call.status != 200]
    assert all(call.began < killed for call in failed), failed
    assert len(failed) <= AGENTS
    assert len([call for call in calls if call.began > killed]) > AGENTS
    assert all(recorded.get(call.trace_id or "") == "ok" for call in calls if call.status == 200)
