"""Requests made from our own OpenAPI document, fitting and not: never a 500, always an answer that it tells of."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from adapters.schema import Session
from adapters.server import Server
from gateway.scripted import ScriptedServer, running
from tests.gateway.api.harness import STARTED, Api, api, trace
from tests.gateway.harness import gateway

BASE_URL = "http://127.0.0.1:9090"
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# Hypothesis finds the same requests each time, so that a failure stays one.
SEARCH = settings(
    max_examples=80, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


CLOSED = {"admin_key": "admin", "keys": ("agent",)}
ADMIN = {"authorization": "Bearer admin"}
ENDED = 20


@pytest.mark.parametrize(
    ("closed", "brings"),
    [
        ({}, None),
        (CLOSED, None),
        (CLOSED, "admin"),
        (CLOSED, "agent"),
        (CLOSED, "rgk-made-up"),
        (CLOSED, ["trace:read"]),
        (CLOSED, ["admin"]),
        (CLOSED, ["session:write", "reward:write"]),
    ],
    ids=lambda told: str(told) if told is None or isinstance(told, str | list) else "closed" if told else "open",
)
def test_no_request_is_a_500_and_every_answer_is_as_the_document_says(
    tmp_path: Path, closed: dict[str, Any], brings: str | list[str] | None
) -> None:
    with _served(tmp_path, **closed) as (runner, served):
        key = brings
        if isinstance(brings, list):
            asked = served.client.post("/api/admin/keys", json={"name": "a", "scopes": brings}, headers=ADMIN)
            key = runner.run(asked).json()["key"]
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        schema = _schema(runner, served.client).include(path_regex="^/api/")
        cases = schema.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
        misfits = schema.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)

        @settings(SEARCH, max_examples=80 if not closed else 40)
        @given(cases | misfits)
        def ask(case: schemathesis.Case) -> None:
            response = runner.run(served.client.send(_request(case, headers)))
            if key in ("agent", "rgk-made-up") or (closed and key is None):
                assert response.status_code == (403 if key == "agent" else 401)
            case.validate_response(response, checks=CHECKS)

        ask()


def test_each_operation_of_the_api_is_asked_and_does_what_it_is_for(tmp_path: Path) -> None:
    """With the admin key, for a made-up request may make the first key, and that closes the door to all others."""
    answers: dict[str, Counter[int]] = {}
    with _served(tmp_path, **CLOSED) as (runner, served):
        for found in _schema(runner, served.client).include(path_regex="^/api/").get_all_operations():
            operation = found.ok()
            answers[operation.label] = _answers_to(operation, runner, served)
    assert len(answers) > 40
    assert {label for label, seen in answers.items() if {401, 403} & seen.keys()} == set()
    # A claim, a key or a backend of a made-up name is none; everything else was let through to its work at least once.
    idle = {label for label, seen in answers.items() if not any(status < 400 for status in seen)}
    assert all(re.search(r"\{(claim_id|key_id|name)\}|^POST /api/admin/backends$", label) for label in idle), idle


def test_agents_and_probes_have_answers_that_the_document_tells_of(tmp_path: Path) -> None:
    """The plane of the agents, of a whole gateway."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        backend = runner.run(stack.enter_async_context(running(ScriptedServer("vllm"))))
        served = runner.run(stack.enter_async_context(gateway(tmp_path, f"{backend},engine=vllm")))
        asked: set[str] = set()
        try:
            for found in _schema(runner, served.agent).exclude(path_regex="^/api/").get_all_operations():
                operation = found.ok()
                asked.add(operation.label)

                @settings(SEARCH, max_examples=12)
                @given(operation.as_strategy())
                def ask(case: schemathesis.Case) -> None:
                    request = _request(case, {})
                    request.url = served.agent.base_url.copy_with(raw_path=request.url.raw_path)
                    case.validate_response(runner.run(served.agent.send(request)), checks=CHECKS)

                ask()
        finally:
            runner.run(stack.aclose())
    assert {"POST /v1/messages", "POST /v1/responses", "GET /readyz", "GET /metrics"} <= asked


def _answers_to(operation: Any, runner: asyncio.Runner, served: Api) -> Counter[int]:
    """How often each status, of requests for things that there are and that there are not."""
    seen: Counter[int] = Counter()

    @settings(SEARCH, max_examples=8)
    @given(operation.as_strategy(), st.integers(0, ENDED - 1))
    def ask(case: schemathesis.Case, number: int) -> None:
        known = {"session_id": f"ended-{number}", "trace_id": trace().trace_id}
        if number % 2:
            case.path_parameters = {name: known.get(name, given) for name, given in case.path_parameters.items()}
        response = runner.run(served.client.send(_request(case, ADMIN)))
        seen[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)

    ask()
    return seen


@contextmanager
def _served(tmp_path: Path, **told: Any) -> Iterator[tuple[asyncio.Runner, Api]]:
    """The API, with a trace and sessions that have ended."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        served = runner.run(stack.enter_async_context(api(tmp_path, base_url=BASE_URL, **told)))
        served.detector.servers["http://10.0.0.1:8000"] = Server("vllm")
        runner.run(served.record(trace()))
        for number in range(ENDED):
            ended = Session(f"ended-{number}", STARTED, status="finished", group_id=f"g{number // 2}", group_size=2)
            runner.run(served.store.create_session(ended))
        try:
            yield runner, served
        finally:
            runner.run(stack.aclose())


def _schema(runner: asyncio.Runner, client: httpx.AsyncClient) -> Any:
    return schemathesis.openapi.from_dict(runner.run(client.get("/openapi.json")).json())


def _request(case: schemathesis.Case, more: dict[str, str]) -> httpx.Request:
    """As httpx writes it; what no client could send is left out."""
    told: dict[str, Any] = case.as_transport_kwargs(base_url=BASE_URL)
    headers = {name: str(value) for name, value in (told.get("headers") or {}).items() if str(value).isascii()} | more
    # Waiting is another test's.
    params = {name: value for name, value in (told.get("params") or {}).items() if name != "wait"}
    if isinstance(told.get("json"), dict):
        told["json"].pop("wait", None)
    body = {"json": told["json"]} if "json" in told else {"content": told.get("data")}
    return httpx.Request(told["method"], told["url"], headers=headers, params=params, **body)
