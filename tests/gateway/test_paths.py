"""Which path a backend sees (docs/promises.md F1): an adapter's, whatever the caller wrote."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import CHAT, HELLO, Running, gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANAGEMENT = ("update_weights", "collective_rpc", "sleep", "flush_cache", "shutdown")

# How each is written on the request line, as `{path}`.
KIN = [
    "/{path}",
    "/v1/{path}",
    "/v1/../{path}",
    "/v1/%2e%2e/{path}",
    "/v1/%252e%252e/{path}",
    "/v1/..%2f{path}",
    "/v1/..%5c{path}",
    "/v1/..\\{path}",
    "/v1/..;/{path}",
    "/v1/./../{path}",
    "/v1/chat/../../{path}",
    "/v1/chat/completions/../../../{path}",
    "/v1/chat/completions/%2e%2e/%2e%2e/%2e%2e/{path}",
    "/v1/chat/completions%2f..%2f..%2f..%2f{path}",
    "/v1/chat/completions/{path}",
    "/v1/chat/completions;/../{path}",
    "/sessions/a/v1/../../../{path}",
    "/sessions/a/v1/%2e%2e/%2e%2e/%2e%2e/{path}",
    "/sessions/..%2f..%2f{path}/v1/chat/completions",
    "/sessions/../{path}",
    "/api/../{path}",
    "//{path}",
    "///{path}",
    "/v1//{path}",
    "http://backend/{path}",
    "/v1/%c0%ae%c0%ae/{path}",
    "/v1/%c0%ae%c0%ae%c0%af{path}",
    "/v1/%e0%80%ae%e0%80%ae/{path}",
    "/v1/%u002e%u002e/{path}",
    "/v1/..%00/{path}",
    "/v1/..%0d%0a/{path}",
    "/v1/chat/completions%00/{path}",
    "/v1/chat/completions%0a/../../{path}",
    "/v1/chat/completions%3b/../../{path}",
    "/v1/messages/count_tokens/../../../{path}",
    "/v1/models/../../{path}",
    "/api/%2e%2e/{path}",
    "/api/..%2f{path}",
    "/api/%252e%252e/{path}",
    "/api/..\\{path}",
    "/api/admin/..;/..;/{path}",
    "/api/sessions/..%2f..%2f{path}",
    "/api/sessions/%c0%ae%c0%ae/{path}",
    "/healthz/../{path}",
    "/healthz%00/{path}",
    "/docs/../{path}",
]

# Each is nearly one of our own endpoints, and none.
NEARLY = [
    f"{CHAT}%0a",
    f"{CHAT}%0d%0a",
    f"{CHAT}%00",
    f"{CHAT}/",
    f"{CHAT}%20",
    f"{CHAT};a=b",
    f"{CHAT}%3ba=b",
    f"{CHAT}\\",
    f"{CHAT}%5c",
    f"{CHAT}%252e",
    "/v1/./chat/completions",
    "/v1/chat/../chat/completions",
    "/v1//chat/completions",
    "//v1/chat/completions",
    "/V1/chat/completions",
    "/v1/chat/completion%c0%73",
    f"/sessions/..{CHAT}",
    f"/sessions/%2e%2e{CHAT}",
    f"/sessions/a%2fb{CHAT}",
    f"/sessions/a%252fb{CHAT}",
    f"/sessions/a%5cb{CHAT}",
    f"/sessions/a;b{CHAT}",
    f"/sessions/a%0a{CHAT}",
    f"/sessions/a%00{CHAT}",
    f"/sessions/a%c0%ae{CHAT}",
    f"/sessions/%EF%BC%8E{CHAT}",
    f"/sessions/{CHAT}",
    "/healthz%0a",
    "/v1/models%0a",
    "/api/sessions%0a",
    "/api/sessions%00",
    "/api/sessions/",
    "/api/sessions;a",
    "/api//sessions",
    "/api%2f..%2fapi%2fsessions",
    "/api/admin/status%0a",
    "/api/traces/..%2f..%2fsessions",
]


@dataclass(frozen=True, slots=True)
class Pair:
    server: ScriptedServer
    gateway: Running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    server = ScriptedServer("vllm")
    async with running(server) as url, gateway(tmp_path_factory.mktemp("paths"), url) as served:
        yield Pair(server, served)


async def _written(served: Running, method: str, target: str) -> tuple[int, bytes]:
    """Status and body for a request line that no client has tidied up."""
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps(HELLO).encode()
    head = f"{method} {target} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.read(-1)
    writer.close()
    head_told, _, told = answer.partition(b"\r\n\r\n")
    return int(head_told.split()[1]), told


@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE"])
@pytest.mark.parametrize("kin", KIN)
async def test_management_endpoints_are_not_reached_however_their_path_is_written(
    pair: Pair, method: str, kin: str
) -> None:
    for path in MANAGEMENT if method == "POST" else MANAGEMENT[:1]:
        status, _ = await _written(pair.gateway, method, kin.format(path=path))
        assert 400 <= status < 500
    seen = {call.route for call in pair.server.requests if call.method != "GET"}
    assert not [route for route in seen if any(path in route for path in MANAGEMENT)]
    assert not [call.path for call in pair.server.requests if any(path in call.path for path in MANAGEMENT)]


@pytest.mark.parametrize("target", NEARLY)
async def test_what_is_nearly_an_endpoint_is_none_and_makes_no_session(pair: Pair, target: str) -> None:
    calls = len(pair.server.calls)
    for method in ("POST", "GET"):
        status, _ = await _written(pair.gateway, method, target)
        assert 400 <= status < 500, (method, status)
    assert len(pair.server.calls) == calls
    sessions = (await pair.gateway.agent.get("/api/sessions", params={"implicit": True})).json()["items"]
    assert {session["session_id"] for session in sessions if not session["implicit"]} <= {"a"}


@pytest.mark.parametrize("target", [CHAT, f"{CHAT}?x=/../sleep", f"/sessions/a{CHAT}", "/v1/chat/%63ompletions"])
async def test_a_backend_sees_the_adapters_path_and_nothing_of_the_callers(pair: Pair, target: str) -> None:
    calls = len(pair.server.calls)
    status, _ = await _written(pair.gateway, "POST", target)
    assert (status, [call.path for call in pair.server.calls[calls:]]) == (200, [CHAT])


async def test_a_backends_own_prefix_stands_before_the_adapters_path(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as url:
        backend = f"{url}/team-a,engine=vllm,version=0.33.0"
        async with gateway(tmp_path_factory.mktemp("prefix"), backend) as served:
            await served.chat(session="a")
    assert [call.path for call in server.requests if call.method == "POST"] == [f"/team-a{CHAT}"]
