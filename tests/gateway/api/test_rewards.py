"""Rewards over HTTP, over a real store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.api.harness import Api, api, trace


async def told(served: Api, body: object, path: str = "/api/sessions/s1/rewards") -> httpx.Response:
    return await served.client.post(path, json=body)


async def test_a_reward_is_kept_with_its_defaults_and_shown_by_its_session(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await served.client.post("/api/sessions", json={"session_id": "s1"})
        answer = (await told(served, {"value": 0.7})).json()
        assert (answer["total"], answer["next"], answer["complete"]) == (0.7, None, True)
        [reward] = answer["items"]
        assert reward.pop("created_at").endswith("Z")
        assert len(reward.pop("reward_id")) == 36
        assert reward == {
            "name": "reward",
            "value": 0.7,
            "weight": 1.0,
            "trace_id": None,
            "metadata": {},
            "current": True,
        }
        [shown] = (await served.client.get("/api/sessions/s1")).json()["rewards"]
        assert (shown["name"], shown["value"]) == ("reward", 0.7)
        assert "current" not in shown


async def test_the_history_says_which_rewards_count(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        recorded = await served.record(trace())
        await told(
            served, [{"reward_id": "1", "value": 1}, {"reward_id": "2", "name": "format", "value": 1, "weight": 2}]
        )
        await told(served, {"reward_id": "3", "value": 0.5, "trace_id": recorded.trace_id})
        await served.client.post("/api/sessions/s1/finish")
        await told(served, {"reward_id": "4", "value": -1, "metadata": {"judge": "b"}})
        history = (await served.client.get("/api/sessions/s1/rewards")).json()
    assert [(each["reward_id"], each["current"]) for each in history["items"]] == [
        ("1", False),
        ("2", True),
        ("3", True),
        ("4", True),
    ]
    assert history["total"] == 1.0
    assert history["items"][3]["metadata"] == {"judge": "b"}


async def test_a_session_without_rewards_has_no_total(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await served.client.post("/api/sessions", json={"session_id": "s1"})
        history = (await served.client.get("/api/sessions/s1/rewards")).json()
    assert history == {"items": [], "total": None, "next": None, "complete": True}


async def test_a_reward_sent_again_counts_once_and_a_different_one_is_a_409(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await served.client.post("/api/sessions", json={"session_id": "s1"})
        first = await told(served, {"reward_id": "k", "value": 0.7})
        assert (await told(served, {"reward_id": "k", "value": 0.7})).json() == first.json()
        other = await told(served, [{"value": 1}, {"reward_id": "k", "value": 0.8}])
        assert (other.status_code, other.json()["code"]) == (409, "reward_exists")
        assert "under a new id" in other.json()["detail"]
        assert (await served.client.get("/api/sessions/s1/rewards")).json() == first.json()


async def test_a_call_is_rewarded_by_its_own_path(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        recorded = await served.record(trace())
        path = f"/api/traces/{recorded.trace_id}/rewards"
        answer = (
            await told(served, [{"value": 1}, {"value": 0, "name": "b", "trace_id": recorded.trace_id}], path)
        ).json()
        assert [each["trace_id"] for each in answer["items"]] == [recorded.trace_id] * 2
        assert answer["total"] is None
        other = await told(served, {"value": 1, "trace_id": "t2"}, path)
        assert (other.status_code, other.json()["code"]) == (400, "other_trace")
        never = await told(served, {"value": 1}, "/api/traces/never/rewards")
        assert (never.status_code, never.json()["code"]) == (404, "trace_not_found")


async def test_a_reward_of_a_call_that_the_session_does_not_have_says_so(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await served.record(trace(session_id="s2"))
        await served.client.post("/api/sessions", json={"session_id": "s1"})
        answer = await told(served, {"value": 1, "trace_id": trace().trace_id})
    assert (answer.status_code, answer.json()["code"]) == (404, "trace_not_found")
    assert trace().trace_id in answer.json()["detail"]


async def test_a_session_ends_with_its_rewards_in_one_step(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await served.client.post("/api/sessions", json={"session_id": "s1"})
        finish = "/api/sessions/s1/finish"
        wrong = await told(served, {"rewards": [{"value": 1, "trace_id": "never"}]}, finish)
        assert wrong.status_code == 404
        assert (await served.client.get("/api/sessions/s1")).json()["status"] == "open"
        ended = (await told(served, {"status": "failed", "rewards": [{"reward_id": "k", "value": 0}]}, finish)).json()
        assert (ended["status"], [each["value"] for each in ended["rewards"]]) == ("failed", [0.0])
        again = (await told(served, {"status": "failed", "rewards": [{"reward_id": "k", "value": 0}]}, finish)).json()
        assert again == ended


@pytest.mark.parametrize(
    ("body", "field", "sentence"),
    [
        ({}, "reward.value", "required"),
        ({"value": "much"}, "reward.value", "number"),
        ({"value": 1, "nam": "a"}, "reward", "did you mean name?"),
        ({"value": 1, "name": ""}, "reward.name", "at least 1 character"),
        ([{"value": 1}, {"value": None}], "rewards.1.value", "number"),
        ([], "rewards", "at least 1 item"),
        ("0.7", "reward", "dictionary"),
        (None, "body", "required"),
    ],
)
async def test_what_is_no_reward_is_a_400_that_names_the_field(
    tmp_path: Path, body: Any, field: str, sentence: str
) -> None:
    async with api(tmp_path) as served:
        await served.client.post("/api/sessions", json={"session_id": "s1"})
        answer = await told(served, body)
    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert error["field"] == field
    assert sentence in error["message"]


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e999"])
async def test_a_reward_that_is_no_finite_number_is_a_400(tmp_path: Path, number: bytes) -> None:
    async with api(tmp_path) as served:
        await served.client.post("/api/sessions", json={"session_id": "s1"})
        answer = await served.client.post(
            "/api/sessions/s1/rewards", content=b'{"value": %b}' % number, headers={"content-type": "application/json"}
        )
    assert answer.status_code == 400
    assert "finite" in answer.json()["detail"]


async def test_a_sum_of_rewards_is_a_number_however_large_they_are(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await served.client.post("/api/sessions", json={"session_id": "s1"})
        refused = await told(served, {"value": 1e308})
        await told(served, {"name": "a", "value": 1e30, "weight": 1e30})
        answer = await told(served, {"name": "b", "value": 1e30, "weight": 1e30})
    assert refused.status_code == 400
    assert "less than or equal to 1000" in refused.json()["detail"]
    assert answer.json()["total"] == pytest.approx(2e60)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_no_session_is_a_404_a_deleted_one_a_410_and_no_id_a_400(tmp_path: Path, method: str) -> None:
    async with api(tmp_path) as served:
        await served.client.post("/api/sessions", json={"session_id": "gone"})
        await served.client.delete("/api/sessions/gone")
        for session_id, status in (("never", 404), ("gone", 410), ("-", 400)):
            body = {"value": 1} if method == "POST" else None
            answer = await served.client.request(method, f"/api/sessions/{session_id}/rewards", json=body)
            assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
