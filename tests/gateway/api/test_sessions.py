"""`/api/sessions` over a real store."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.api.harness import api, trace


async def test_a_created_session_comes_with_a_base_url_and_a_key_that_work(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        made = await served.client.post(
            "/api/sessions",
            json={
                "session_id": "s1",
                "run_id": "r1",
                "group_id": "g1",
                "group_size": 8,
                "metadata": {"task": [1, {"deep": None}]},
                "capture": "ids",
                "purpose": "eval",
                "attempt": 2,
            },
        )
        assert made.status_code == 201
        told = made.json()
        key, created_at = told.pop("key"), told.pop("created_at")
        assert created_at.endswith("Z")
        assert told == {
            "session_id": "s1",
            "status": "open",
            "run_id": "r1",
            "group_id": "g1",
            "group_size": 8,
            "finished_at": None,
            "metadata": {"task": [1, {"deep": None}]},
            "rewards": [],
            "sampling": None,
            "budgets": None,
            "capture": "ids",
            "purpose": "eval",
            "attempt": 2,
            "backend": None,
            "implicit": False,
            "base_url": "http://127.0.0.1:9090/sessions/s1/v1",
        }
        resolved = await served.sessions.resolve({"x-api-key": key}, None, "t1")
        assert resolved.session.session_id == "s1"
        read = await served.client.get("/api/sessions/s1")
        assert "key" not in read.json()


async def test_a_session_without_a_body_field_gets_an_id_and_defaults(tmp_path: Path) -> None:
    async with api(tmp_path, public_url="https://gateway.example/v1") as served:
        told = (await served.client.post("/api/sessions", json={})).json()
        assert told["base_url"] == f"https://gateway.example/sessions/{told['session_id']}/v1"
        assert (told["run_id"], told["metadata"], told["attempt"]) == (None, {}, 0)


async def test_a_base_url_has_the_host_of_the_request_where_that_is_one(tmp_path: Path) -> None:
    async with api(tmp_path, admin_key="admin") as served:
        for host, base_url in (
            ("gateway.lab:8080", "http://gateway.lab:8080"),
            ("[fd00::1]:9090", "http://[fd00::1]:9090"),
            ("evil/../x", "http://127.0.0.1:9090"),
            ("a b", "http://127.0.0.1:9090"),
            ('"><script>', "http://127.0.0.1:9090"),
        ):
            made = await served.client.post("/api/sessions", json={}, headers={"host": host, "x-api-key": "admin"})
            told = made.json()
            assert told["base_url"] == f"{base_url}/sessions/{told['session_id']}/v1"


async def test_what_does_not_fit_is_a_400_that_names_the_field(tmp_path: Path) -> None:
    cases: list[tuple[object, str, str]] = [
        ({"run_idd": "r"}, "body", "'run_idd' is unknown: did you mean run_id?"),
        ({"session_id": "a/b"}, "session_id", "pattern"),
        ({"session_id": "a\n"}, "session_id", "pattern"),
        ({"capture": "all"}, "capture", "'exact', 'ids' or 'stream'"),
        ({"attempt": -1}, "attempt", "greater than or equal to 0"),
        ({"attempt": 2**31}, "attempt", "less than or equal"),
        ({"run_id": ""}, "run_id", "at least 1 character"),
        ({"run_id": "a\nb"}, "run_id", "pattern"),
        ({"metadata": []}, "metadata", "dictionary"),
        ({"metadata": {"n": 2**64}}, "metadata", "64 bits"),
        ([], "body", "dictionary"),
        (None, "body", "required"),
    ]
    async with api(tmp_path) as served:
        for body, field, sentence in cases:
            answer = await served.client.post("/api/sessions", json=body)
            assert answer.status_code == 400, body
            assert answer.headers["content-type"] == "application/problem+json"
            (error,) = answer.json()["errors"]
            assert error["field"] == field
            assert sentence in error["message"]


async def test_json_that_others_could_not_read_is_refused(tmp_path: Path) -> None:
    cases = [
        (b'{"metadata": {"a": NaN}}', "NaN and infinite numbers are not JSON"),
        (b'{"metadata": {"a": 1e999}}', "NaN and infinite numbers are not JSON"),
        (b'{"metadata": {"a": ["\\ud800"]}}', "surrogate"),
        (b'{"metadata": {"\\ud800": 1}}', "surrogate"),
        (b'{"run_id": "\\ud800"}', "unicode"),
        (b'{"metadata": {"a": %b}}' % (b"[" * 100 + b"]" * 100), "nested deeper than 64 levels"),
        (b"[" * 100_000, "body"),
        (b'{"a"', "not valid JSON"),
        (b"\xff\xfe\xfd", "body"),
        (b'{"metadata": {"a": %b}}' % (b"9" * 10_000), "body"),
    ]
    async with api(tmp_path) as served:
        for body, sentence in cases:
            answer = await served.client.post(
                "/api/sessions", content=body, headers={"content-type": "application/json"}
            )
            assert answer.status_code == 400, body[:50]
            assert sentence in answer.text


async def test_an_id_is_used_once(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await served.client.post("/api/sessions", json={"session_id": "s1"})
        again = await served.client.post("/api/sessions", json={"session_id": "s1"})
        assert (again.status_code, again.json()["code"]) == (409, "session_exists")
        gone = await served.client.delete("/api/sessions/s1")
        assert (gone.status_code, gone.content) == (204, b"")
        after = await served.client.post("/api/sessions", json={"session_id": "s1"})
        assert (after.status_code, after.json()["code"]) == (410, "session_deleted")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/sessions/{}", None),
        ("PATCH", "/api/sessions/{}", {"run_id": "r"}),
        ("PATCH", "/api/sessions/{}", {}),
        ("POST", "/api/sessions/{}/finish", None),
        ("DELETE", "/api/sessions/{}", None),
        ("GET", "/api/sessions/{}/traces", None),
    ],
)
async def test_no_session_is_a_404_a_deleted_one_a_410_and_no_id_a_400(
    tmp_path: Path, method: str, path: str, body: Any
) -> None:
    async with api(tmp_path) as served:
        await served.client.post("/api/sessions", json={"session_id": "gone"})
        await served.client.delete("/api/sessions/gone")
        for session_id, status in (("never", 404), ("gone", 410), ("-", 400), ("a%20b", 400)):
            answer = await served.client.request(method, path.format(session_id), json=body)
            assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


async def test_a_change_changes_what_it_names(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        made = await served.client.post(
            "/api/sessions", json={"session_id": "s1", "run_id": "r", "metadata": {"a": 1, "b": 2}}
        )
        changed = await served.client.patch("/api/sessions/s1", json={"group_id": "g", "metadata": {"a": 3}})
        assert changed.json() == {
            **{key: value for key, value in made.json().items() if key not in ("key", "base_url")},
            "group_id": "g",
            "metadata": {"a": 3},
        }
        cleared = await served.client.patch("/api/sessions/s1", json={"run_id": None})
        assert (cleared.json()["run_id"], cleared.json()["group_id"]) == (None, "g")
        nothing = await served.client.patch("/api/sessions/s1", json={})
        assert nothing.json() == cleared.json()


async def test_a_finished_session_says_when_and_takes_no_calls(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await served.client.post("/api/sessions", json={"session_id": "s1"})
        ended = await served.client.post("/api/sessions/s1/finish", json={"status": "failed"})
        assert ended.json()["status"] == "failed"
        assert ended.json()["finished_at"] is not None
        assert (await served.client.get("/api/sessions/s1")).json() == ended.json()
        wrong = await served.client.post("/api/sessions/s1/finish", json={"status": "open"})
        assert wrong.status_code == 400


async def test_finish_needs_no_body(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await served.client.post("/api/sessions", json={"session_id": "s1"})
        assert (await served.client.post("/api/sessions/s1/finish")).json()["status"] == "finished"


async def test_a_deleted_session_takes_its_traces_with_it(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        recorded = await served.record(trace())
        assert (await served.client.delete("/api/sessions/s1")).status_code == 204
        assert (await served.client.get(f"/api/traces/{recorded.trace_id}")).status_code == 404
        assert (await served.client.get("/api/traces")).json()["items"] == []


async def test_lists_are_filtered_and_paged(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for number in range(5):
            await served.client.post(
                "/api/sessions", json={"session_id": f"s{number}", "run_id": f"r{number % 2}", "group_id": "g"}
            )
        await served.client.post("/api/sessions/s0/finish")

        async def listed(**params: Any) -> list[str]:
            page = (await served.client.get("/api/sessions", params=params)).json()
            assert page["complete"] is True
            return [each["session_id"] for each in page["items"]]

        assert await listed() == ["s0", "s1", "s2", "s3", "s4"]
        assert await listed(run_id="r1") == ["s1", "s3"]
        assert await listed(status="finished") == ["s0"]
        assert await listed(group_id="other") == []
        assert await listed(since="2100-01-01T00:00:00Z") == []
        assert await listed(since="2000-01-01T00:00:00+02:00", until="2100-01-01T00:00:00Z", implicit=False)

        found, cursor = [], None
        while True:
            params: dict[str, Any] = {"limit": 2} | ({"cursor": cursor} if cursor else {})
            page = (await served.client.get("/api/sessions", params=params)).json()
            found += [each["session_id"] for each in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert found == ["s0", "s1", "s2", "s3", "s4"]


async def test_filters_that_do_not_fit_are_named(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for query, field in (
            ("limit=0", "limit"),
            ("limit=1001", "limit"),
            ("limit=x", "limit"),
            ("status=done", "status"),
            ("since=yesterday", "since"),
            ("since=2026-01-01T00:00:00", "since"),
            ("since=9999-12-31T23:59:59-23:59", "since"),
            ("wait=61", "wait"),
            ("wait=nan", "wait"),
            ("wait=-1", "wait"),
            ("runid=r", "query"),
        ):
            for path in ("/api/sessions", "/api/traces"):
                answer = await served.client.get(f"{path}?{query}")
                assert answer.status_code == 400, query
                assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_a_cursor_that_no_page_gave_is_a_400(tmp_path: Path) -> None:
    packed = [base64.urlsafe_b64encode(key).decode() for key in (b'["2020-01-01T00:00:00","x"]', b'[%d,"x"]' % 2**70)]
    async with api(tmp_path) as served:
        for cursor in ("x", "%00", "W10", "WzEsMl0", "a" * 1024, "bnVsbA", *packed, "%F0%9F%A6%8A"):
            for path in ("/api/sessions?", "/api/traces?", "/api/traces?session_id=s1&"):
                answer = await served.client.get(f"{path}cursor={cursor}")
                assert answer.status_code in ((200, 400) if "traces" in path else (400,)), cursor
                assert answer.status_code == 200 or answer.json()["code"] == "bad_cursor"
