"""How much there may be: of a head, of connections, of calls and of bytes, with errors that their callers parse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.dialect_calls import ASKED, error_of
from tests.gateway.edge.wire import answer_on, answers, connected, kept, request, sent
from tests.gateway.harness import CHAT, Running, gateway, traces_in, until

LONG = "x" * 70_000
HEADS = {
    "a long header": (431, request(f"x-a: {LONG}")),
    "a header that never ends": (431, request(f"x-a: {LONG}").partition(b"\r\n\r\n")[0]),
    "many headers": (431, request(*(f"x-{number}: a" for number in range(200)))),
    "a long target": (414, request(target=f"{CHAT}?{LONG[:9000]}")),
    "HTTP/2": (505, request(version="2.0")),
    "HTTP/0.9": (505, b"GET /healthz\r\n\r\n"),
    "a tunnel": (405, request(method="CONNECT", target="elsewhere:443", body=b"")),
}


@pytest.mark.parametrize("odd", HEADS)
async def test_a_head_beyond_bounds_is_refused_as_soon_as_that_is_known(tmp_path: Path, odd: str) -> None:
    status, data = HEADS[odd]
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        [told] = answers(await sent(served.url, data))
        assert told.status == status
        assert json.loads(told.body)["error"]["message"]
        assert (await served.chat()).status_code == 200
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("target", "shape"),
    [
        ("/sessions/a/v1/messages", ["type", "error", "request_id"]),
        ("/v1/messages/count_tokens", ["type", "error", "request_id"]),
        ("/v1/responses", ["error"]),
        ("/api/sessions", ["title", "status", "detail", "code", "request_id", "type", "errors"]),
        ("/healthz", ["error"]),
    ],
)
async def test_whoever_asks_is_told_in_the_shape_of_what_is_asked(
    tmp_path: Path, target: str, shape: list[str]
) -> None:
    async with gateway(tmp_path) as served:
        [told] = answers(await sent(served.url, request("Host: twice", target=target)))
    assert (told.status, list(json.loads(told.body))) == (400, shape)
    assert told.headers["x-request-id"]


async def test_one_connection_too_many_is_told_to_come_back_and_then_finds_room(
    tmp_path: Path,
) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, max_connections=2) as served:
        async with connected(served.url) as (reader, writer), connected(served.url):
            writer.write(kept(request()))
            assert (await answer_on(reader)).status == 200
            [told] = answers(await sent(served.url, request()))
            assert (told.status, told.headers["retry-after"], told.headers["x-should-retry"]) == (503, "1", "true")
            writer.write(kept(request()))
            assert (await answer_on(reader)).status == 200
        await asyncio.sleep(0.1)
        [told] = answers(await sent(served.url, request()))
        assert told.status == 200


async def _held(served: Running, server: ScriptedServer, **asked: Any) -> asyncio.Task[httpx.Response]:
    """A call that its backend is at, for a second."""
    calls = len(server.calls)
    server.faults.append(Fault(delay=1.0))
    call = asyncio.create_task(served.chat(**asked))
    await until(lambda: len(server.calls) > calls)
    return call


@pytest.mark.parametrize("path", [path for path in ASKED if "count" not in path])
async def test_a_call_too_many_is_a_429_of_its_dialect_and_of_its_session_a_trace(tmp_path: Path, path: str) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, max_calls=1) as served:
        held = await _held(served, server)
        for place in ("/sessions/a", ""):
            refused = await served.agent.post(place + path, json=ASKED[path])
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert refused.headers["x-should-retry"] == "true"
            assert "max_calls" in error_of(path, refused.json())[1]
        # The administrator's plane is not the agents'.
        assert (await served.agent.get("/api/admin/status")).status_code == 200
        assert (await held).status_code == 200
        assert (await served.agent.post(path, json=ASKED[path])).status_code == 200
    assert len(server.calls) == 2
    traces = await traces_in(tmp_path / "rollouts.db")
    told = [(trace.status, trace.http_status, trace.session_id == "a") for trace in traces]
    assert sorted(told) == [("ok", 200, False), ("ok", 200, False), ("rejected", 429, True)]


async def test_a_call_too_many_costs_its_session_nothing(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, max_calls=1) as served:
        await served.agent.post("/api/sessions", json={"session_id": "a", "budgets": {"calls": 1}})
        held = await _held(served, server)
        for _ in range(3):
            assert (await served.chat(session="a")).status_code == 429
        assert (await held).status_code == 200
        assert (await served.chat(session="a")).json()["choices"][0]["message"]["content"]
    assert len(server.calls) == 2


async def test_each_key_has_calls_of_its_own_whatever_else_comes_with_it(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    one = {"authorization": "Bearer one"}
    async with (
        running(server) as backend,
        gateway(tmp_path, backend, keys="one two", admin_key="admin", max_calls_per_key=1) as served,
    ):
        as_admin = {"authorization": "Bearer admin"}
        made = (await served.agent.post("/api/sessions", json={}, headers=as_admin)).json()
        held = await _held(served, server, headers=one)
        for disguised in (
            one,
            {"x-api-key": "one"},
            {"authorization": "Bearer made-up", "x-api-key": "one"},
            {"authorization": "bearer  one", "x-api-key": "two"},
        ):
            refused = await served.chat(headers=disguised)
            assert (refused.status_code, "max_calls_per_key" in refused.text) == (429, True), disguised
        others = [{"x-api-key": "two"}, {"authorization": f"Bearer {made['key']}"}]
        for other in others:
            assert (await served.chat(headers=other)).status_code == 200
        assert (await held).status_code == 200
        assert (await served.chat(headers=one)).status_code == 200


async def test_all_bodies_together_have_a_bound_within_which_small_ones_find_room(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    large = {"messages": [{"role": "user", "content": "x" * (3 << 19)}]}
    limits = {"max_body_bytes": 7 << 18, "max_bodies_bytes": 10 << 18}
    async with running(server) as backend, gateway(tmp_path, backend, **limits) as served:
        held = await _held(served, server, **large)
        refused = await served.chat(session="a", **large)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert "max_bodies_bytes" in refused.text
        assert (await served.chat()).status_code == 200
        counted = await served.agent.post("/v1/messages/count_tokens", json={**ASKED["/v1/messages"], **large})
        assert counted.status_code == 429
        assert (await held).status_code == 200
        # Nothing is held any more, neither of the calls that were served nor of those that were not.
        assert (await served.chat(**large)).status_code == 200
    traces = await traces_in(tmp_path / "rollouts.db")
    assert sorted(trace.status for trace in traces) == ["ok", "ok", "ok", "rejected"]


async def test_what_was_announced_and_did_not_come_takes_nothing_from_others(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    limits = {"max_body_bytes": 7 << 18, "max_bodies_bytes": 10 << 18}
    async with (
        running(server) as backend,
        gateway(tmp_path, backend, **limits) as served,
        connected(served.url) as (_, first),
        connected(served.url) as (_, second),
    ):
        for writer in (first, second):
            writer.write(request(f"Content-Length: {7 << 18}"))
        await asyncio.sleep(0.1)
        content = [{"role": "user", "content": "x" * (3 << 19)}]
        assert (await served.chat(messages=content)).status_code == 200
    assert len(server.calls) == 1


@pytest.mark.parametrize("ends", [bytes, kept], ids=["closed", "kept"])
@pytest.mark.parametrize(("target", "status"), [("/nowhere", 404), (CHAT, 401)])
async def test_a_refusal_reaches_whoever_is_still_sending(
    tmp_path: Path, target: str, status: int, ends: Callable[[bytes], bytes]
) -> None:
    async with gateway(tmp_path, keys="one") as served, connected(served.url) as (reader, writer):
        writer.write(ends(request(f"Content-Length: {16 << 20}", target=target, body=b"")))
        for _ in range(64):
            writer.write(bytes(1 << 18))
            await writer.drain()
        assert (await answer_on(reader)).status == status
