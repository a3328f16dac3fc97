"""`/api/claims` over a real store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.api.harness import Api, api
from tests.gateway.api.test_groups import rollout


async def claim(served: Api, **wanted: Any) -> httpx.Response:
    return await served.client.post("/api/claims", json=wanted)


async def change(served: Api, claim_id: str, what: str, body: object = None) -> httpx.Response:
    return await served.client.post(f"/api/claims/{claim_id}/{what}", json=body)


async def test_a_claim_is_made_read_and_acknowledged(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for name in "abc":
            await rollout(served, name, run_id="r")
        made = await claim(served, run_id="r", limit=2)
        assert made.status_code == 201
        told = made.json()
        claim_id = told["claim_id"]
        assert (await served.client.get(f"/api/claims/{claim_id}")).json() == told
        assert told.pop("expires_at").endswith("Z")
        assert told == {
            "claim_id": claim_id,
            "consumer": "default",
            "unit": "session",
            "status": "held",
            "session_ids": ["a", "b"],
            "group_ids": [],
        }
        done = await change(served, claim_id, "ack")
        assert (done.status_code, done.json()["status"]) == (200, "acknowledged")
        assert (await change(served, claim_id, "ack")).json() == done.json()
        assert (await claim(served, limit=9)).json()["session_ids"] == ["c"]


async def test_nothing_to_claim_is_a_204(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await rollout(served, "eval", purpose="eval")
        nothing = await claim(served)
        assert (nothing.status_code, nothing.content) == (204, b"")
        assert (await claim(served, purpose=None)).json()["session_ids"] == ["eval"]


async def test_who_waits_gets_what_ends_meanwhile(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        waiting = asyncio.create_task(claim(served, wait=30))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await rollout(served, "a")
        assert (await asyncio.wait_for(waiting, 20)).json()["session_ids"] == ["a"]


async def test_groups_are_claimed_whole(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for name in "ab":
            await rollout(served, name, run_id="r", group_id="g")
        assert (await claim(served, unit="group")).status_code == 204
        made = (await claim(served, unit="group", group_size=2)).json()
        assert (made["group_ids"], made["session_ids"]) == (["g"], ["a", "b"])


async def test_a_late_ack_is_a_409_and_the_sessions_are_offered_again(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await rollout(served, "a")
        late = (await claim(served, lease_s=0.01)).json()["claim_id"]
        await asyncio.sleep(0.05)
        refused = await change(served, late, "ack")
        assert (refused.status_code, refused.json()["code"]) == (409, "claim_expired")
        assert "make a new claim" in refused.json()["detail"]
        assert (await claim(served)).json()["session_ids"] == ["a"]
        assert (await served.client.get(f"/api/claims/{late}")).json()["status"] == "expired"


async def test_a_claim_is_given_back_or_kept_for_longer(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await rollout(served, "a")
        made = (await claim(served)).json()
        longer = (await change(served, made["claim_id"], "extend", {"lease_s": 3600})).json()
        assert longer["expires_at"] > made["expires_at"]
        released = await change(served, made["claim_id"], "release")
        assert (released.status_code, released.json()["status"]) == (200, "released")
        again = (await claim(served)).json()
        await change(served, again["claim_id"], "ack")
        for what, body in (("release", None), ("extend", {"lease_s": 1})):
            refused = await change(served, again["claim_id"], what, body)
            assert (refused.status_code, refused.json()["code"]) == (409, "claim_acknowledged")


@pytest.mark.parametrize(("method", "what"), [("GET", ""), ("POST", "/ack"), ("POST", "/release"), ("POST", "/extend")])
async def test_no_claim_is_a_404(tmp_path: Path, method: str, what: str) -> None:
    body = {"lease_s": 1} if what == "/extend" else None
    async with api(tmp_path) as served:
        answer = await served.client.request(method, f"/api/claims/never{what}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (404, "claim_not_found")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"lease_s": 0}, "lease_s"),
        ({"lease_s": 1e9}, "lease_s"),
        ({"unit": "run"}, "unit"),
        ({"status": ["finished", "open"]}, "status.1"),
        ({"status": []}, "status"),
        ({"consumer": ""}, "consumer"),
        ({"run": "r"}, "body"),
        ({"wait": 61}, "wait"),
    ],
)
async def test_what_does_not_fit_is_a_400_that_names_the_field(
    tmp_path: Path, body: dict[str, Any], field: str
) -> None:
    async with api(tmp_path) as served:
        answer = await claim(served, **body)
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_claims_are_the_administrators_as_all_of_the_api(tmp_path: Path) -> None:
    async with api(tmp_path, admin_key="admin") as served:
        for method, path in (
            ("POST", "/api/claims"),
            ("GET", "/api/groups"),
            ("POST", "/api/sessions/s/rewards"),
            ("POST", "/api/traces/t/rewards"),
        ):
            assert (await served.client.request(method, path)).status_code == 401
