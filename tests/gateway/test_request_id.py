"""Every answer carries `x-request-id`, whichever plane it is of: the caller's own, or a new one, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.harness import gateway

_PATHS = [
    ("GET", "/"),
    ("GET", "/docs"),
    ("POST", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/nothing"),
    ("GET", "/api"),
    ("GET", "/api/traces"),
    ("GET", "/api/nothing"),
    ("GET", "/v1/models"),
    ("GET", "/v1/chat/completions"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/sessions/a/v1/chat/completions"),
]


@pytest.mark.timeout(60)
async def test_every_answer_carries_one_request_id(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        for method, path in _PATHS:
            answer = await served.agent.request(method, path, headers={"x-request-id": "mine"})
            assert answer.headers.get_list("x-request-id") == ["mine"], path
            new = [(await served.agent.request(method, path)).headers["x-request-id"] for _ in range(2)]
            assert new[0] != new[1], path
            odd = await served.agent.request(method, path, headers={"x-request-id": "a b"})
            assert odd.headers["x-request-id"] not in ("a b", *new), path
