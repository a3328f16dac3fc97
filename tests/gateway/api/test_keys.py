"""`/api/admin/keys` and `/api/admin/audit`: what is made, narrowed, revoked and written down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.api.auditing import Auditor
from gateway.api.keys import router
from gateway.api.scoped import CALLER
from gateway.keys import KeyRing
from storage.audit import Action
from storage.errors import Unavailable
from storage.scopes import SCOPES
from tests.gateway.api.harness import Api, api

ADMIN = {"authorization": "Bearer admin"}


@asynccontextmanager
async def closed(tmp_path: Path) -> AsyncIterator[Api]:
    async with api(tmp_path, admin_key="admin", keys=("agents",)) as served:
        yield served


async def make(served: Api, by: dict[str, str] = ADMIN, **told: Any) -> httpx.Response:
    return await served.client.post("/api/admin/keys", json={"name": "a", "scopes": ["infer"], **told}, headers=by)


def holder(answer: httpx.Response) -> dict[str, str]:
    return {"x-api-key": answer.json()["key"]}


def kept(folder: Path) -> bytes:
    """The database's files."""
    return b"".join(path.read_bytes() for path in folder.glob("rollouts.db*") if path.is_file())


async def test_a_key_is_shown_once_and_never_again(tmp_path: Path) -> None:
    async with closed(tmp_path) as served:
        made = await make(served, note="of run 7", scopes=["trace:read", "infer"], calls_per_minute=60)
        assert made.status_code == 201
        told = made.json()
        key = told.pop("key")
        assert key.startswith("rgk-")
        assert told["scopes"] == ["infer", "trace:read"]
        assert (told["created_by"], told["note"], told["calls_per_minute"]) == ("admin_key", "of run 7", 60)
        one = await served.client.get(f"/api/admin/keys/{told['key_id']}", headers=ADMIN)
        every = await served.client.get("/api/admin/keys", headers=ADMIN)
        assert one.json() == told
        assert every.json() == {"items": [told], "next": None, "complete": True}
    written = kept(tmp_path)
    assert told["key_id"].encode() in written
    assert key.encode() not in written


async def test_no_key_makes_or_changes_one_that_may_do_more_than_itself(tmp_path: Path) -> None:
    async with closed(tmp_path) as served:
        narrow = holder(await make(served, scopes=["admin", "infer"]))
        wide = (await make(served, scopes=list(SCOPES))).json()["key_id"]
        assert (await make(served, by=narrow, scopes=["admin", "trace:read"])).status_code == 403
        own = (await make(served, by=narrow, scopes=["infer"])).json()["key_id"]
        for key_id, change in (
            (own, {"scopes": ["reward:write"]}),
            (wide, {"note": "mine"}),
            (wide, {"scopes": ["infer"]}),
        ):
            path = f"/api/admin/keys/{key_id}"
            assert (await served.client.patch(path, json=change, headers=narrow)).status_code == 403
        path = f"/api/admin/keys/{own}"
        assert (await served.client.patch(path, json={"scopes": ["admin"]}, headers=narrow)).status_code == 200


async def test_no_key_makes_one_that_outlives_it(tmp_path: Path) -> None:
    soon, later = (datetime.now(UTC) + timedelta(hours=hours) for hours in (1, 2))
    async with closed(tmp_path) as served:
        brief = holder(await make(served, scopes=["admin"], expires_at=soon.isoformat()))
        for expires_at in (None, later.isoformat()):
            assert (await make(served, by=brief, scopes=["admin"], expires_at=expires_at)).status_code == 403
        made = await make(served, by=brief, scopes=["admin"], expires_at=soon.isoformat())
        assert made.status_code == 201
        path = f"/api/admin/keys/{made.json()['key_id']}"
        assert (await served.client.patch(path, json={"expires_at": None}, headers=brief)).status_code == 403


async def test_a_change_and_a_revocation_hold_at_once(tmp_path: Path) -> None:
    async with closed(tmp_path) as served:
        made = await make(served, scopes=["trace:read"])
        path, key = f"/api/admin/keys/{made.json()['key_id']}", holder(made)
        assert (await served.client.get("/api/sessions", headers=key)).status_code == 200
        await served.client.patch(path, json={"scopes": ["reward:write"]}, headers=ADMIN)
        assert (await served.client.get("/api/sessions", headers=key)).status_code == 403
        assert (await served.client.delete(path, headers=ADMIN)).status_code == 204
        assert (await served.client.get("/api/sessions", headers=key)).status_code == 401
        revoked = (await served.client.get("/api/admin/keys?revoked=true", headers=ADMIN)).json()["items"]
        assert [(each["revoked_by"], each["scopes"]) for each in revoked] == [("admin_key", ["reward:write"])]


async def test_rewards_with_a_sessions_end_need_their_own_scope(tmp_path: Path) -> None:
    async with closed(tmp_path) as served:
        writer = holder(await make(served, scopes=["session:write"]))
        both = holder(await make(served, scopes=["session:write", "reward:write"]))
        await served.client.post("/api/sessions", json={"session_id": "s1"}, headers=writer)
        ending = {"rewards": [{"value": 1.0}]}
        path = "/api/sessions/s1/finish"
        assert (await served.client.post(path, json=ending, headers=writer)).status_code == 403
        assert (await served.client.post(path, json=ending, headers=both)).status_code == 200


async def test_the_first_key_of_an_open_gateway_can_administer_and_closes_it(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        assert (await make(served, by={}, scopes=["infer"])).status_code == 403
        made = await make(served, by={}, scopes=["admin"])
        assert (made.status_code, made.json()["created_by"]) == (201, "local")
        assert (await served.client.get("/api/admin/keys")).status_code == 401
        key = holder(made)
        assert (await served.client.get("/api/admin/keys", headers=key)).status_code == 200
        # Who revokes the last one has closed /api for good: it does not open to everybody.
        await served.client.delete(f"/api/admin/keys/{made.json()['key_id']}", headers=key)
        assert (await served.client.get("/api/admin/keys")).status_code == 403


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["everything"]}, "scopes"),
        ({"name": ""}, "name"),
        ({"max_calls": 0}, "max_calls"),
        ({"scope": ["infer"]}, "did you mean scopes?"),
        ({"expires_at": "tomorrow"}, "expires_at"),
    ],
)
async def test_what_makes_no_key_says_why(tmp_path: Path, told: dict[str, Any], says: str) -> None:
    async with closed(tmp_path) as served:
        answer = await make(served, **told)
        assert answer.status_code == 400
        assert says in answer.json()["detail"]


async def test_changes_are_written_down_with_who_what_and_the_outcome_and_reading_is_not(tmp_path: Path) -> None:
    async with closed(tmp_path) as served:
        made = await make(served, scopes=["admin"])
        key, key_id = holder(made), made.json()["key_id"]
        await served.client.get("/api/admin/status", headers=key)
        await served.client.delete("/api/admin/keys/none", headers=key | {"x-request-id": "mine"})
        await make(served, by=key, scopes=["trace:read"])
        await served.client.delete("/api/admin/backends/gpu/1", headers=key)
        await served.client.post("/api/admin/prune", json={}, headers=key)
        told = (await served.client.get("/api/admin/audit", headers=ADMIN)).json()["items"]
        shown = [(each["by"], each["action"], each["target"], each["outcome"], each["status"]) for each in told]
        assert shown == [
            (key_id, "POST /api/admin/prune", None, "refused", 400),
            (key_id, "DELETE /api/admin/backends/{name}", "gpu/1", "refused", 404),
            (key_id, "POST /api/admin/keys", None, "refused", 403),
            (key_id, "DELETE /api/admin/keys/{key_id}", "none", "refused", 404),
            ("admin_key", "POST /api/admin/keys", key_id, "done", 201),
        ]
        assert (told[3]["request_id"], told[3]["gateway_id"]) == ("mine", "gateway-1")
        by = (await served.client.get("/api/admin/audit?by=admin_key", headers=ADMIN)).json()["items"]
        assert by == told[4:]


async def test_what_is_a_week_old_can_go_and_what_was_done_just_now_can_not(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    async with closed(tmp_path) as served:
        for days in (30, 8, 1):
            at = now - timedelta(days=days)
            await served.store.audit.add(Action(at=at, by="k", action="PUT", target=str(days), outcome="done"))
        for before, status in ((now, 400), (now - timedelta(days=6), 400), (now - timedelta(days=7), 200)):
            answer = await served.client.delete(
                "/api/admin/audit", params={"before": before.isoformat()}, headers=ADMIN
            )
            assert answer.status_code == status, answer.text
        assert answer.json() == {"actions": 2}
        left = (await served.client.get("/api/admin/audit?by=k", headers=ADMIN)).json()["items"]
        assert [each["target"] for each in left] == ["1"]


async def test_who_may_not_administer_fills_no_log(tmp_path: Path) -> None:
    async with closed(tmp_path) as served:
        reader = holder(await make(served, scopes=["trace:read"]))
        for key in ({}, {"x-api-key": "agents"}, reader):
            await asyncio.gather(*(make(served, by=key) for _ in range(20)))
        assert len((await served.client.get("/api/admin/audit", headers=ADMIN)).json()["items"]) == 1


async def test_what_cannot_be_written_down_is_in_the_log_instead(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Away:
        async def add(self, action: object) -> None:
            raise Unavailable("away")

    route = next(route for route in router.routes if "DELETE" in (getattr(route, "methods", None) or ()))
    caller = KeyRing((), "admin").caller("admin")
    scope = {"method": "DELETE", "route": route, CALLER: caller, "path_params": {"key_id": "k"}}
    await Auditor(Away(), "gateway-1").note(scope, 204, "request")
    assert "not in the audit log (away)" in caplog.text
    assert "admin_key" in caplog.text
