"""Every error under `/api` is a problem, and every answer has a request id."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.api.edge import MAX_BODY_BYTES
from storage.errors import Unavailable
from tests.gateway.api.harness import api


class Broken(SimpleNamespace):
    """A store that fails in a way that nobody foresaw, and in one that somebody did."""

    async def traces(self, _: object) -> object:
        raise RuntimeError("secret words of a database driver")

    async def trace(self, _: str) -> object:
        raise Unavailable("database is locked")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/", 404, "not_found"),
        ("GET", "/api/nothing", 404, "not_found"),
        ("GET", "/api/sessions/", 404, "not_found"),
        ("GET", "/api/docs", 404, "not_found"),
        ("GET", "/api/noth%0Aing", 404, "not_found"),
        ("PUT", "/api/sessions", 405, "method_not_allowed"),
        ("POST", "/api/traces", 405, "method_not_allowed"),
        ("GET", "/api/sessions?limit=x", 400, "invalid_request"),
        ("GET", "/api/sessions/never", 404, "session_not_found"),
        ("GET", "/api/traces", 500, "internal_error"),
        ("GET", "/api/traces/t1", 503, "database_unavailable"),
    ],
)
async def test_an_error_is_a_problem_with_its_request_id(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str, path: str, status: int, code: str
) -> None:
    async with api(tmp_path, spoil=lambda store: Broken()) as served:  # type: ignore[arg-type,return-value]
        answer = await served.client.request(method, path, headers={"x-request-id": "mine"})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == "mine"
    problem = answer.json()
    assert {"type", "title", "status", "detail", "code", "request_id", "errors"} == problem.keys()
    assert (problem["status"], problem["code"], problem["request_id"]) == (status, code, "mine")
    assert problem["detail"].endswith((".", "?"))
    assert "secret words" not in answer.text
    logged = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert bool(logged) == (status >= 500)
    assert all("mine" in record.getMessage() for record in logged)
    # A traceback is for what nobody foresaw.
    assert [record.exc_info is not None for record in logged] == ([code == "internal_error"] if logged else [])


async def test_a_backend_that_cannot_be_reached_is_one_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with api(tmp_path, backends=("http://10.0.0.1:8000,name=a",)) as served:
        for path in ("/api/admin/backends", "/api/admin/backends/a/probe"):
            caplog.clear()
            answer = await served.client.post(path, json={"url": "http://10.0.0.2:8000"})
            assert answer.status_code == 502
            [record] = caplog.records
            assert record.exc_info is None
            assert record.getMessage().startswith(f"POST {path}, request ")
            assert record.getMessage().endswith("502, Connection refused.")


async def test_a_fields_name_is_written_as_the_field_is(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        wrong = (await served.client.post("/api/sessions", json={"run_id": ""})).json()
    assert [error["field"] for error in wrong["errors"]] == ["run_id"]
    assert wrong["detail"].startswith("run_id: ")


async def test_a_405_says_what_is_allowed(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for path, allowed in (
            ("/api/sessions", {"GET", "POST"}),
            ("/api/sessions/s1", {"GET", "PATCH", "DELETE"}),
            ("/api/traces", {"GET"}),
        ):
            answer = await served.client.put(path)
            assert set(answer.headers["allow"].split(", ")) == allowed


async def test_every_answer_has_a_request_id_of_its_own_or_the_callers(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        first, second = [await served.client.get("/api/sessions") for _ in range(2)]
        assert first.headers["x-request-id"] != second.headers["x-request-id"]
        odd = await served.client.get("/api/sessions", headers={"x-request-id": "a b"})
        assert odd.headers["x-request-id"] != "a b"
        assert first.headers["cache-control"] == "no-store"


async def test_a_body_over_the_limit_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(2 * MAX_BODY_BYTES // 65536):
            yield b" " * 65536

    async with api(tmp_path) as served:
        for content in (b" " * (MAX_BODY_BYTES + 1), endless()):
            answer = await served.client.post(
                "/api/sessions", content=content, headers={"content-type": "application/json"}
            )
            assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")


async def test_a_body_that_is_not_said_to_be_json_is_refused(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for headers in ({}, {"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}):
            answer = await served.client.post("/api/sessions", content=b"{}", headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
        charset = {"content-type": "application/json; charset=utf-8"}
        assert (await served.client.post("/api/sessions", content=b"{}", headers=charset)).status_code == 201
