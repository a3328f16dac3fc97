"""Keys that are made, changed and revoked at one gateway, at another of the same PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from gateway.api.keys import NewKey
from gateway.commands.keys import Direct
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import gateway
from tests.postgres import Postgres

ADMIN = {"x-api-key": "admin"}
SECONDS = 5.0
"""Within which every gateway heeds a change: a second, and what a busy machine takes."""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a gateway on PostgreSQL has its spool."""
    monkeypatch.chdir(tmp_path)


async def answered(ask: Callable[[], Awaitable[httpx.Response]], status: int) -> None:
    """Returns once it is so. Raises TimeoutError."""
    async with asyncio.timeout(SECONDS):
        while (await ask()).status_code != status:
            await asyncio.sleep(0.05)


async def test_a_key_is_good_at_both_at_once_and_revoked_at_both_within_seconds(
    tmp_path: Path, postgres: Postgres
) -> None:
    told = {"database": postgres.database(), "keys": "agent", "admin_key": "admin"}
    async with (
        running(ScriptedServer("vllm")) as backend,
        gateway(tmp_path, backend, **told) as here,
        gateway(tmp_path, backend, **told) as there,
    ):
        made = await here.agent.post("/api/admin/keys", json={"name": "a", "scopes": ["infer"]}, headers=ADMIN)
        key = {"authorization": f"Bearer {made.json()['key']}"}
        path = f"/api/admin/keys/{made.json()['key_id']}"
        assert (await there.chat(headers=key)).status_code == 200
        assert (await here.chat(headers=key)).status_code == 200
        await here.agent.patch(path, json={"calls_per_minute": 1}, headers=ADMIN)
        await answered(lambda: there.chat(headers=key), 429)
        await there.agent.delete(path, headers=ADMIN)
        assert (await there.chat(headers=key)).status_code == 401
        await answered(lambda: here.chat(headers=key), 401)
        audit = (await here.agent.get("/api/admin/audit", headers=ADMIN)).json()["items"]
        assert [each["action"].split()[0] for each in audit] == ["DELETE", "PATCH", "POST"]
        assert len({each["gateway_id"] for each in audit}) == 2


async def test_the_first_key_that_is_made_in_the_database_closes_the_api_of_gateways_that_run(
    tmp_path: Path, postgres: Postgres
) -> None:
    database = postgres.database()
    async with gateway(tmp_path, database=database) as open_one:
        assert (await open_one.agent.get("/api/sessions")).status_code == 200
        made = await asyncio.to_thread(Direct(database).create, NewKey(name="root", scopes=("admin", "trace:read")))
        await answered(lambda: open_one.agent.get("/api/sessions"), 401)
        answer = await open_one.agent.get("/api/sessions", headers={"x-api-key": made.key})
        assert answer.status_code == 200


async def test_while_the_database_is_away_keys_that_are_known_go_on(tmp_path: Path, postgres: Postgres) -> None:
    told = {"database": postgres.database(), "keys": "agent", "admin_key": "admin", "commit_timeout": 0.2}
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend, **told) as served:
        made = await served.agent.post("/api/admin/keys", json={"name": "a", "scopes": ["infer"]}, headers=ADMIN)
        key = {"x-api-key": made.json()["key"]}
        postgres.pause()
        try:
            assert (await served.chat(headers=key)).status_code == 200
            unknown = await served.chat(headers={"x-api-key": "rgk-perhaps-made-elsewhere"})
        finally:
            postgres.resume()
        assert (unknown.status_code, unknown.headers["x-should-retry"]) == (503, "true")
