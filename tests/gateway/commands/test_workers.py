"""`serve --workers`: processes that share a port and a PostgreSQL, held together by one that does no work itself."""

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

from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.harness import CHAT, HELLO
from tests.gateway.sight.scraping import numbers_of
from tests.postgres import Postgres


@dataclass(slots=True)
class Workers:
    process: asyncio.subprocess.Process
    url: str
    log: str = field(default="")

    def pids(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    async def call(self, session: str, **fields: object) -> httpx.Response:
        """On a connection of its own, so that any worker may take it."""
        async with httpx.AsyncClient(base_url=self.url, timeout=30, trust_env=False) as agent:
            return await agent.post(f"/sessions/{session}{CHAT}", json={**HELLO, **fields})

    async def get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient(base_url=self.url, timeout=30, trust_env=False) as agent:
            return await agent.get(path)


def lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


async def begun(tmp_path: Path, database: str, backend: str, *more: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "serve", "--port", "0", "--ready-file", str(tmp_path / "ready.json")),
        *("--backend", f"{backend},engine=vllm,version=0.32.0", "--database", database, *more),
        env={"ROLLOUT_GATEWAY_STOP_GRACE": "5", "PYTHONPATH": ":".join(sys.path), "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )


@asynccontextmanager
async def serving(tmp_path: Path, database: str, backend: str, workers: int = 2) -> AsyncIterator[Workers]:
    process = await begun(tmp_path, database, backend, "--workers", str(workers))
    ready = tmp_path / "ready.json"
    try:
        async with asyncio.timeout(60):
            while not ready.exists() and process.returncode is None:
                await asyncio.sleep(0.02)
        told = json.loads(ready.read_text())
        assert told["pid"] == process.pid
        workers_ = Workers(process, told["url"])
        yield workers_
        _, log = await asyncio.wait_for(process.communicate(), 60)
        workers_.log = log.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_workers_share_a_port_and_stop_together(tmp_path: Path, postgres: Postgres) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, serving(tmp_path, postgres.database(), backend) as workers:
        of_workers: set[str] = set()
        async with asyncio.timeout(60):
            while len(of_workers) < 2:  # Whoever has time takes a call, so it may take some until both had one.
                answers = await asyncio.gather(*(workers.call("s1") for _ in range(8)))
                assert [answer.status_code for answer in answers] == [200] * 8
                traces = (await workers.get("/api/sessions/s1/traces")).json()["items"]
                of_workers = {trace["gateway_id"] for trace in traces}
        status = (await workers.get("/api/admin/status")).json()
        # Whichever of them is scraped, the calls of both are told.
        told = numbers_of((await workers.get("/metrics")).text)
        calls = [told[f'calls_total{{dialect="chat",engine="vllm",status="ok",worker="{n}"}}'] for n in (1, 2)]
        assert all(calls)
        assert sum(calls) == len(traces)
        assert [told[f'worker_up{{worker="{n}"}}'] for n in (1, 2)] == [1, 1]
        server.faults.append(Fault(delay=1.5))
        slow = asyncio.create_task(workers.call("s2"))
        await asyncio.sleep(0.5)
        workers.process.send_signal(signal.SIGTERM)
        assert (await slow).status_code == 200
    assert [trace["turn"] for trace in traces] == list(range(len(traces)))
    # Each worker is a gateway of its own.
    assert {gateway["gateway_id"] for gateway in status["gateways"]} == of_workers
    assert status["gateway_id"] in of_workers
    assert workers.process.returncode == 0
    assert "Traceback" not in workers.log
    assert not (tmp_path / "ready.json").exists()


async def test_a_worker_that_dies_begins_again_and_the_others_serve_meanwhile(
    tmp_path: Path, postgres: Postgres
) -> None:
    async with running(ScriptedServer("vllm")) as backend, serving(tmp_path, postgres.database(), backend) as workers:
        before = workers.pids()
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        answers = [await workers.call("s1") for _ in range(10)]
        assert [answer.status_code for answer in answers] == [200] * 10
        async with asyncio.timeout(30):
            while len(workers.pids()) < 2:
                await asyncio.sleep(0.05)
        workers.process.send_signal(signal.SIGINT)
    assert workers.process.returncode == 0
    assert "worker 1 was killed by signal 9; it begins again in 2 s" in workers.log


async def test_a_supervisor_that_is_killed_leaves_no_worker_behind(tmp_path: Path, postgres: Postgres) -> None:
    async with running(ScriptedServer("vllm")) as backend, serving(tmp_path, postgres.database(), backend) as workers:
        pids = workers.pids()
        workers.process.kill()
        async with asyncio.timeout(30):
            while any(map(lives, pids)):
                await asyncio.sleep(0.05)


async def test_a_worker_that_cannot_begin_ends_all_with_one_sentence(tmp_path: Path, postgres: Postgres) -> None:
    there_is_none = f"postgresql://postgres@127.0.0.1:{postgres.port}/there_is_none"
    process = await begun(tmp_path, there_is_none, "http://127.0.0.1:9", "--workers", "2")
    _, log = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1
    told = [line for line in log.decode().splitlines() if line.startswith("rollout-gateway: ")]
    assert len(told) == 1
    assert "there_is_none" in told[0]
    assert "Traceback" not in log.decode()
    assert not (tmp_path / "ready.json").exists()
