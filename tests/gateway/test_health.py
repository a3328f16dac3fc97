"""`/healthz` and `/readyz`: alive is not ready."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.scripted import ScriptedServer, free_port, running
from tests.gateway.harness import Running, gateway


async def ready(served: Running) -> tuple[int, list[str]]:
    told = await served.agent.get("/readyz")
    assert told.json()["status"] == ("ok" if told.status_code == 200 else "unavailable")
    return told.status_code, told.json()["problems"]


async def test_a_gateway_without_a_backend_lives_and_is_not_ready(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served, running(ScriptedServer("vllm")) as url:
        assert (await served.agent.get("/healthz")).json() == {"status": "ok", "problems": []}
        status, [problem] = await ready(served)
        assert status == 503
        assert problem.startswith("no backend is configured: start with --backend URL")
        added = await served.agent.post("/api/admin/backends", json={"url": url})
        assert added.status_code == 201
        assert await ready(served) == (200, [])


@pytest.mark.parametrize(("alive", "problems"), [(1, []), (0, ["no backend can be reached"])])
async def test_one_backend_that_can_be_reached_is_enough(tmp_path: Path, alive: int, problems: list[str]) -> None:
    dead = [f"http://127.0.0.1:{free_port()},name=dead-{number}" for number in range(2 - alive)]
    async with running(ScriptedServer("vllm")) as url, gateway(tmp_path, *[url][:alive], *dead) as served:
        async with asyncio.timeout(5):
            while "unknown" in [
                each["health"] for each in (await served.agent.get("/api/admin/backends")).json()["items"]
            ]:
                await asyncio.sleep(0.01)
        assert (await ready(served))[1] == problems
