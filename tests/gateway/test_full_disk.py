"""A disk without room (docs/promises.md D8): a real one of two megabytes, with database and spool both on it."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.harness import Running, gateway, traces_in

_SIZE = "2m"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all the room there is."""
    path = disk / "filler"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return path


async def _until_refused(served: Running) -> Any:
    async with asyncio.timeout(60):
        while (response := await served.chat()).status_code == 200:
            pass
    return response


async def test_a_full_disk_refuses_calls_before_any_backend_until_there_is_room_again(disk: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(disk, backend, commit_timeout=0.3) as served:
        answered = [(await served.chat(session="before")).headers["x-trace-id"] for _ in range(3)]
        # Calls that run when the disk becomes full still end, though nothing more fits beside what is held for them.
        server.fault = Fault(delay=2.0)
        in_flight = [asyncio.create_task(served.chat(session="during", stream=bool(n % 2))) for n in range(8)]
        await asyncio.sleep(0.5)
        filler = fill(disk)
        for response in await asyncio.gather(*in_flight):
            assert response.status_code == 200
            assert b"error" not in response.content
            answered.append(response.headers["x-trace-id"])
        server.fault = Fault()
        refused = await _until_refused(served)
        asked = len(server.calls)
        for path, shape in (("/v1/chat/completions", "error"), ("/v1/messages", "error")):
            body = {"model": "scripted", "max_tokens": 8, "messages": [{"role": "user", "content": "Hi."}]}
            refused = await served.agent.post(path, json=body)
            assert (refused.status_code, refused.headers["x-should-retry"]) == (503, "true")
            assert refused.json()[shape]["message"]
        assert len(server.calls) == asked
        ready = await served.agent.get("/readyz")
        assert (ready.status_code, "nothing can be recorded" in ready.text) == (503, True)
        filler.unlink()
        async with asyncio.timeout(30):
            while (await served.agent.get("/readyz")).status_code != 200 or (
                await served.agent.get("/api/traces", params={"limit": 1})
            ).json()["complete"] is not True:
                await asyncio.sleep(0.05)
        answered.append((await served.chat(session="after")).headers["x-trace-id"])
    traces = await traces_in(disk / "rollouts.db", limit=1000)
    ok = [trace.trace_id for trace in traces if trace.status == "ok"]
    assert len(ok) == len(set(ok))
    assert set(answered) <= set(ok)
    assert {trace.fidelity for trace in traces if trace.status == "ok"} == {"exact"}
