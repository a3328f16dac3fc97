"""`/api/groups` over a real store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.api.harness import Api, api


async def rollout(served: Api, name: str, *, ended: bool = True, **labels: Any) -> None:
    await served.client.post("/api/sessions", json={"session_id": name, **labels})
    if ended:
        await served.client.post(f"/api/sessions/{name}/finish")


async def test_a_runs_groups_say_how_far_they_are(tmp_path: Path) -> None:
    of = {"run_id": "r", "group_id": "task-7", "group_size": 2}
    async with api(tmp_path) as served:
        await rollout(served, "a", **of)
        await rollout(served, "b", ended=False, **of)
        await rollout(served, "c", run_id="other", group_id="task-7")
        page = (await served.client.get("/api/groups", params={"run_id": "r"})).json()
        assert page["items"] == [
            {
                "run_id": "r",
                "group_id": "task-7",
                "size": 2,
                "sessions": 2,
                "open": 1,
                "finished": 1,
                "failed": 0,
                "aborted": 0,
                "complete": False,
            }
        ]
        assert page["complete"] is True
        complete = {"complete": "true", "group_size": 1}
        assert [
            each["run_id"] for each in (await served.client.get("/api/groups", params=complete)).json()["items"]
        ] == ["other"]


async def test_a_wait_for_complete_groups_ends_when_the_last_of_its_sessions_does(tmp_path: Path) -> None:
    of = {"run_id": "r", "group_id": "g", "group_size": 2}
    async with api(tmp_path) as served:
        await rollout(served, "a", **of)
        await rollout(served, "b", ended=False, **of)
        params: dict[str, Any] = {"run_id": "r", "complete": "true"}
        nothing = (await served.client.get("/api/groups", params=params)).json()
        assert nothing["items"] == []
        waiting = asyncio.create_task(
            served.client.get("/api/groups", params=params | {"wait": 30, "cursor": nothing["next"]})
        )
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await served.client.post("/api/sessions/b/finish")
        page = (await asyncio.wait_for(waiting, 20)).json()
        assert [each["group_id"] for each in page["items"]] == ["g"]
        again = (await served.client.get("/api/groups", params=params | {"cursor": page["next"]})).json()
        assert (again["items"], again["next"]) == ([], page["next"])


@pytest.mark.parametrize(
    ("query", "field"),
    [("group_size=0", "group_size"), ("complete=perhaps", "complete"), ("limit=0", "limit"), ("group=g", "query")],
)
async def test_filters_that_do_not_fit_are_named(tmp_path: Path, query: str, field: str) -> None:
    async with api(tmp_path) as served:
        answer = await served.client.get(f"/api/groups?{query}")
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_a_cursor_that_no_page_gave_is_a_400(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        answer = await served.client.get("/api/groups?cursor=x")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_cursor")
