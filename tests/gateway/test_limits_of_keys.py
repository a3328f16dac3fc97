"""What a key may use at a time and in a minute: told in the caller's dialect, before any backend is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from adapters.schema import Trace, Usage
from gateway.admission import Admission
from gateway.keys import KeyRing, digest
from gateway.scripted import Fault, ScriptedServer, running
from storage.keys import KeySet
from tests.gateway.dialect_calls import ASKED, error_of
from tests.gateway.harness import Running, gateway, traces_in, until
from tests.gateway.keys.test_ring import stored
from tests.storage.examples import call

ADMIN = {"authorization": "Bearer admin"}
CALLS = [path for path in ASKED if "count" not in path]


@asynccontextmanager
async def limited(
    tmp_path: Path, server: ScriptedServer, **limits: int
) -> AsyncIterator[tuple[Running, dict[str, str]]]:
    """A gateway, and the headers of a key with these limits."""
    async with (
        running(server) as backend,
        gateway(tmp_path, backend, keys="agent", admin_key="admin") as served,
    ):
        asked = {"name": "a", "scopes": ["infer"], **limits}
        key = (await served.agent.post("/api/admin/keys", json=asked, headers=ADMIN)).json()["key"]
        yield served, {"x-api-key": key}


@pytest.mark.parametrize("path", CALLS)
async def test_a_call_beyond_its_minute_is_a_429_of_its_dialect_and_of_its_session_a_trace(
    tmp_path: Path, path: str
) -> None:
    server = ScriptedServer("vllm")
    async with limited(tmp_path, server, calls_per_minute=2) as (served, key):
        for _ in range(2):
            assert (await served.agent.post(path, json=ASKED[path], headers=key)).status_code == 200
        for place in ("", "/sessions/a"):
            refused = await served.agent.post(place + path, json=ASKED[path], headers=key)
            assert refused.status_code == 429
            assert 1 <= int(refused.headers["retry-after"]) <= 61
            assert refused.headers["x-should-retry"] == "true"
            assert "2 calls a minute" in error_of(path, refused.json())[1]
        # Another's minute is its own.
        other = {"x-api-key": "agent"}
        assert (await served.agent.post(path, json=ASKED[path], headers=other)).status_code == 200
    assert len(server.calls) == 3
    traces = await traces_in(tmp_path / "rollouts.db")
    assert sorted((trace.status, trace.session_id == "a") for trace in traces) == [
        *[("ok", False)] * 3,
        ("rejected", True),
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_tokens_are_counted_as_they_are_recorded(tmp_path: Path, stream: bool) -> None:
    server = ScriptedServer("vllm")
    async with limited(tmp_path, server, tokens_per_minute=1) as (served, key):
        assert (await served.chat(headers=key, stream=stream)).status_code == 200
        refused = await served.chat(headers=key, stream=stream)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert "1 tokens a minute" in refused.json()["error"]["message"]
    assert len(server.calls) == 1


async def test_a_keys_own_number_of_calls_at_a_time_goes_above_the_general_one(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with limited(tmp_path, server, max_calls=1) as (served, key):
        server.faults.append(Fault(delay=1.0))
        held = asyncio.create_task(served.chat(headers=key))
        await until(lambda: server.calls)
        refused = await served.chat(headers=key)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert (await served.chat(headers={"x-api-key": "agent"})).status_code == 200
        assert (await held).status_code == 200
        assert (await served.chat(headers=key)).status_code == 200


def test_what_is_refused_uses_nothing_up_and_a_minute_later_there_is_room() -> None:
    now = 0.0
    ring = KeyRing()
    ring.take(KeySet(1, {digest("k"): stored("k", calls_per_minute=2, tokens_per_minute=100)}, frozenset({"infer"})))
    admission = Admission(ring=ring, clock=lambda: now)
    holder = admission.holder({"x-api-key": "k"})

    def made(tokens: int) -> Any:
        refusal = admission.enter(holder)
        if refusal is None:
            admission.leave(holder, trace_of(tokens))
        return refusal

    assert [made(10), made(10)] == [None, None]
    refused = [made(10) for _ in range(5)]
    assert [refusal.retry_after for refusal in refused] == [61] * 5
    now = 61.0
    assert made(500) is None
    assert "100 tokens" in str(made(1))
    now = 122.0
    assert made(1) is None


def trace_of(tokens: int) -> Trace:
    return call("s", usage=Usage(tokens, 0, tokens))
