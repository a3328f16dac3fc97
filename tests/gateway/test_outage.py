"""A database that hangs, and one that is gone, under gateways that serve: their agents go on (docs/promises.md B3)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from gateway.scripted import ScriptedServer, running
from tests.gateway.dialect_calls import ASKED, error_of
from tests.gateway.harness import Running, gateway
from tests.postgres import Postgres

Outage = Literal["hangs", "gone"]
# What a call may take: one look at the database, the wait for a commit, and what a busy machine needs.
LIMIT = 2.0 + 1.0 + 3.0


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a gateway on PostgreSQL has its spool."""
    monkeypatch.chdir(tmp_path)


def begin(outage: Outage, postgres: Postgres) -> None:
    if outage == "hangs":
        postgres.pause()
    else:
        postgres.kill()


def end(outage: Outage, postgres: Postgres) -> None:
    if outage == "hangs":
        postgres.resume()
    else:
        postgres.start()


async def timed(call: Awaitable[httpx.Response]) -> httpx.Response:
    started = time.monotonic()
    answer = await call
    assert time.monotonic() - started < LIMIT
    return answer


async def traces_of(served: Running, session: str) -> list[dict[str, Any]]:
    listed = await served.agent.get(f"/api/sessions/{session}/traces")
    items: list[dict[str, Any]] = listed.json().get("items", [])
    return items


async def within(seconds: float, condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("outage", ["hangs", "gone"])
async def test_agents_go_on_while_the_database_is_away(tmp_path: Path, own_postgres: Postgres, outage: Outage) -> None:
    database = own_postgres.database()
    folders = {name: tmp_path / name for name in ("here", "there")}
    for folder in folders.values():
        folder.mkdir()
    async with (
        running(ScriptedServer("vllm")) as backend,
        gateway(folders["here"], backend, database=database, commit_timeout=1.0) as here,
        gateway(folders["there"], backend, database=database, commit_timeout=1.0) as there,
    ):
        await here.chat(session="known")
        made = (await there.agent.post("/api/sessions", json={"session_id": "keyed"})).json()
        await there.agent.post("/api/sessions", json={"session_id": "made-there", "run_id": "r"})
        await there.agent.post("/api/sessions", json={"session_id": "deleted"})
        await there.agent.delete("/api/sessions/deleted")
        budget = {"session_id": "bounded", "budgets": {"calls": 2}}
        await here.agent.post("/api/sessions", json=budget)
        await here.chat(session="bounded")

        begin(outage, own_postgres)
        try:
            answers = [
                await timed(here.chat(session=session))
                for session in ("known", "known", "new", "new", "made-there", "deleted", "bounded", "bounded")
            ]
            assert [answer.status_code for answer in answers] == [200] * 8
            for path, asked in ASKED.items():
                refused = await timed(here.agent.post(path, json=asked, headers={"x-api-key": made["key"]}))
                assert (refused.status_code, refused.headers["x-should-retry"]) == (503, "true")
                assert "Try again" in error_of(path, refused.json())[1]
        finally:
            end(outage, own_postgres)

        async def drained() -> bool:
            return len(await traces_of(here, "made-there")) == 1 and len(await traces_of(here, "known")) == 3

        await within(30, drained)
        told = {session: await traces_of(here, session) for session in ("known", "new", "made-there", "bounded")}
        left = {trace["session_id"] for trace in (await here.agent.get("/api/traces")).json()["items"]}
        kept = (await here.agent.get("/api/sessions/made-there")).json()
    assert [trace["turn"] for trace in told["known"]] == [0, 1, 2]
    assert [trace["turn"] for trace in told["new"]] == [0, 1]
    assert [trace["metadata"] for trace in told["known"]] == [{}] * 3
    assert [trace["metadata"] for trace in told["new"]] == [{"not_looked_up": ["session"]}] * 2
    assert (kept["run_id"], told["made-there"][0]["metadata"]) == ("r", {"not_looked_up": ["session"]})
    assert [trace["status"] for trace in told["bounded"]] == ["ok", "ok", "rejected"]
    assert told["bounded"][1]["metadata"] == {"not_looked_up": ["budget"]}
    assert "deleted" not in left
