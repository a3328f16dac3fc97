"""`/api/admin/prune` and `/api/admin/storage`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.schema import Session
from tests.gateway.api.harness import Api, api, trace

MONTH = 30 * 86_400


async def rollout(served: Api, number: int, days: float, *, run_id: str | None = None, ended: bool = True) -> None:
    then = datetime.now(UTC) - timedelta(days=days)
    name = f"s{number}"
    await served.record(
        replace(trace(number, session_id=name), started_at=then), Session(name, created_at=then, run_id=run_id)
    )
    if ended:
        await served.store.change_session(name, status="finished", finished_at=then)


async def prune(served: Api, **asked: Any) -> dict[str, Any]:
    answer = await served.client.post("/api/admin/prune", json=asked)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_old_sessions_go_and_their_ids_stay_gone(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await rollout(served, 0, days=31)
        await rollout(served, 1, days=29)
        would = await prune(served, older_than=MONTH, dry_run=True)
        assert (would["sessions"], would["traces"], would["undelivered"], would["more"]) == (1, 1, 1, False)
        assert (await served.client.get("/api/sessions/s0")).status_code == 200
        went = await prune(served, older_than=MONTH)
        assert {**went, "given_back_bytes": 0} == would
        gone = await served.client.get("/api/sessions/s0")
        assert (gone.status_code, gone.json()["code"]) == (410, "session_deleted")
        assert [each["session_id"] for each in (await served.client.get("/api/sessions")).json()["items"]] == ["s1"]


async def test_a_run_goes_and_only_of_the_status_that_is_asked_for(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await rollout(served, 0, days=1, run_id="r")
        await rollout(served, 1, days=1, run_id="r", ended=False)
        await rollout(served, 2, days=1)
        assert (await prune(served, run_id="r", status=["failed"]))["sessions"] == 0
        assert (await prune(served, run_id="r"))["sessions"] == 1
        assert (await prune(served, run_id="r", status="open"))["sessions"] == 1
        assert (await prune(served, run_id=""))["sessions"] == 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "neither an age nor a run is named"),
        ({"status": ["finished"]}, "neither an age nor a run is named"),
        ({"older_than": -1}, "greater than or equal to 0"),
        ({"older_than": MONTH, "status": ["ended"]}, "Input should be 'open', 'finished', 'failed' or 'aborted'"),
        ({"olderthan": MONTH}, "older_than"),
    ],
)
async def test_what_would_delete_everything_or_is_mistyped_deletes_nothing(
    tmp_path: Path, asked: dict[str, Any], said: str
) -> None:
    async with api(tmp_path) as served:
        await rollout(served, 0, days=31)
        refused = await served.client.post("/api/admin/prune", json=asked)
        assert refused.status_code == 400
        assert said in refused.text
        assert (await served.client.get("/api/sessions/s0")).status_code == 200


async def test_what_each_run_takes_is_told_the_largest_first(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for number in range(3):
            await rollout(served, number, days=1, run_id="r" if number else None)
        told = (await served.client.get("/api/admin/storage")).json()
        large, small = told["runs"]
        assert (large["run_id"], large["sessions"], large["traces"]) == ("r", 2, 2)
        assert (small["run_id"], small["sessions"], small["traces"]) == (None, 1, 1)
        assert told["bytes"] > large["bytes"] > small["bytes"] > 0
        assert told["free_bytes"] >= 0


async def test_an_agents_key_opens_neither(tmp_path: Path) -> None:
    async with api(tmp_path, keys="infer", admin_key="admin") as served:
        for method, path in (("POST", "/api/admin/prune"), ("GET", "/api/admin/storage")):
            refused = await served.client.request(method, path, headers={"authorization": "Bearer infer"})
            assert refused.status_code in (401, 403)
