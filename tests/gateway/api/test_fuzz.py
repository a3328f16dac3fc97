"""Requests made from our own OpenAPI document, fitting and not: never a 500, always an answer that it tells of."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
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


def test_no_request_is_a_500_and_every_answer_is_as_the_document_says(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        served = runner.run(stack.enter_async_context(api(tmp_path, base_url=BASE_URL)))
        served.detector.servers["http://10.0.0.1:8000"] = Server("vllm")
        runner.run(served.record(trace()))
        for number in range(20):
            ended = Session(f"ended-{number}", STARTED, status="finished", group_id=f"g{number // 2}", group_size=2)
            runner.run(served.store.create_session(ended))
        document = runner.run(served.client.get("/openapi.json")).json()
        schema = schemathesis.openapi.from_dict(document).include(path_regex="^/api/")
        cases = schema.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
        misfits = schema.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)

        @SEARCH
        @given(cases | misfits)
        def ask(case: schemathesis.Case) -> None:
            response = runner.run(served.client.send(_request(case)))
            case.validate_response(response, checks=CHECKS)

        try:
            ask()
        finally:
            runner.run(stack.aclose())


def _request(case: schemathesis.Case) -> httpx.Request:
    """As httpx writes it; what no client could send is left out."""
    told: dict[str, Any] = case.as_transport_kwargs(base_url=BASE_URL)
    headers = {name: str(value) for name, value in (told.get("headers") or {}).items() if str(value).isascii()}
    # Waiting is another test's.
    params = {name: value for name, value in (told.get("params") or {}).items() if name != "wait"}
    if isinstance(told.get("json"), dict):
        told["json"].pop("wait", None)
    body = {"json": told["json"]} if "json" in told else {"content": told.get("data")}
    return httpx.Request(told["method"], told["url"], headers=headers, params=params, **body)
