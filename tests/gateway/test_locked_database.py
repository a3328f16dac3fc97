"""A database that another process has locked (docs/promises.md F4): agents notice nothing, and nothing is lost.

`LOCKED=20 make test ARGS=tests/gateway/test_locked_database.py` is the long form.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import Running, gateway, traces_in

LOCKED = float(os.environ.get("LOCKED", "4"))

_PROGRAM = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """By a process of its own."""
    command = [sys.executable, "-c", _PROGRAM, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        yield


async def test_a_locked_database_delays_no_call_for_long_and_loses_none(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, commit_timeout=0.5) as served:
        answered: dict[str, list[str]] = {f"session-{number}": [] for number in range(6)}
        took: list[float] = []

        async def rollout(session: str, until_s: float) -> None:
            while time.monotonic() < until_s:
                began = time.monotonic()
                response = await served.chat(session=session, stream=bool(len(answered[session]) % 2))
                took.append(time.monotonic() - began)
                assert response.status_code == 200, response.text
                assert b'"error"' not in response.content
                answered[session].append(response.headers["x-trace-id"])
                await asyncio.sleep(0.02)

        for session in answered:
            await rollout(session, time.monotonic() + 0.01)
        began = time.monotonic()
        with locked(served.database):
            await asyncio.gather(*(rollout(session, began + LOCKED) for session in answered))
            status = (await served.agent.get("/api/admin/status")).json()["store"]
            assert status["spool_depth"] == sum(map(len, answered.values())) - len(answered)
            assert (await served.agent.get("/readyz")).status_code == 200
            refused = await served.agent.post("/api/sessions", json={})
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert refused.headers["content-type"] == "application/problem+json"
        # Only those that ran when it began waited for it at all: for the time that they are to, and the spool's.
        assert max(took) < 0.5 + 2.0
        assert sorted(took)[len(took) // 2] < 0.5
        await asyncio.gather(*(rollout(session, time.monotonic() + 1.0) for session in answered))
        await _complete(served)
    traces = await traces_in(tmp_path / "rollouts.db", limit=10_000)
    for session, trace_ids in answered.items():
        mine = sorted((trace for trace in traces if trace.session_id == session), key=lambda trace: trace.turn or 0)
        assert [(trace.trace_id, trace.turn, trace.status) for trace in mine] == [
            (trace_id, turn, "ok") for turn, trace_id in enumerate(trace_ids)
        ]
    assert {trace.fidelity for trace in traces} == {"exact"}


async def _complete(served: Running) -> None:
    async with asyncio.timeout(30):
        while not (await served.agent.get("/api/traces", params={"limit": 1})).json()["complete"]:
            await asyncio.sleep(0.05)


async def test_a_list_says_that_it_is_not_complete_until_the_spool_is_drained(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    paths = ("/api/traces", "/api/sessions", "/api/samples", "/api/groups")
    exports = ("/api/export?of=traces&format=jsonl", "/api/export?format=jsonl")
    async with running(server) as backend, gateway(tmp_path, backend, commit_timeout=0.2) as served:

        async def told() -> set[bool]:
            lists = [(await served.agent.get(path)).json()["complete"] for path in paths]
            return {*lists, *[(await served.agent.get(path)).headers["x-complete"] == "true" for path in exports]}

        assert await told() == {True}
        with locked(served.database):
            await served.chat(session="s")
            assert await told() == {False}
        await _complete(served)
        assert await told() == {True}
