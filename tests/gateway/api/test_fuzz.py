"""Requests made from our own OpenAPI document, fitting and not: never a 500, always an answer that it tells of."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from adapters.schema import Session
from adapters.server import Server
from tests.gateway.api.harness import STARTED, api, trace

BASE_URL = "http://127.0.0.1:9090"
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# Hypothesis finds the same requests each time, so that a failure stays one.
SEARCH = settings(
    max_examples=80, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


CLOSED = {"admin_key": "admin", "keys": ("agent",)}
ADMIN = {"authorization": "Bearer admin"}


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
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        served = runner.run(stack.enter_async_context(api(tmp_path, base_url=BASE_URL, **closed)))
        key = brings
        if isinstance(brings, list):
            asked = served.client.post("/api/admin/keys", json={"name": "a", "scopes": brings}, headers=ADMIN)
            key = runner.run(asked).json()["key"]
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        served.detector.servers["http://10.0.0.1:8000"] = Server("vllm")
        runner.run(served.record(trace()))
        for number in range(20):
            ended = Session(f"ended-{number}", STARTED, status="finished", group_id=f"g{number // 2}", group_size=2)
            runner.run(served.store.create_session(ended))
        document = runner.run(served.client.get("/openapi.json")).json()
        schema = schemathesis.openapi.from_dict(document).include(path_regex="^/api/")
        cases = schema.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
        misfits = schema.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)

        @settings(SEARCH, max_examples=80 if not closed else 40)
        @given(cases | misfits)
        def ask(case: schemathesis.Case) -> None:
            response = runner.run(served.client.send(_request(case, headers)))
            if key in ("agent", "rgk-made-up") or (closed and key is None):
                assert response.status_code == (403 if key == "agent" else 401)
            case.validate_response(response, checks=CHECKS)

        try:
            ask()
        finally:
            runner.run(stack.aclose())


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
