"""What an SDK sends again supersedes its earlier attempt; what only looks alike does not (docs/promises.md B4)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from adapters.schema import Session, Trace
from gateway.habits.retries import Retries
from gateway.scripted import Fault, ScriptedServer, running
from storage.errors import Unavailable
from tests.gateway.harness import CHAT, HELLO, Running, gateway, traces_in, until

AGAIN = {"x-stainless-retry-count": "1"}


async def called(served: Running, session: str = "s1", headers: dict[str, str] | None = None, **fields: Any) -> str:
    response = await served.chat(session=session, headers={"x-stainless-retry-count": "0", **(headers or {})}, **fields)
    trace_id: str = response.headers["x-trace-id"]
    return trace_id


async def told(tmp_path: Path) -> list[str | None]:
    """`retry_of` of each trace, in the order of their calls."""
    return [trace.retry_of for trace in await recorded(tmp_path)]


async def recorded(tmp_path: Path) -> list[Trace]:
    return sorted(await traces_in(tmp_path / "rollouts.db"), key=lambda trace: trace.trace_id)


async def test_an_attempt_that_failed_is_named_by_its_retry_and_not_trained(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        first = await called(served)
        second = await called(served, headers=AGAIN)
        third = await called(served, headers={"x-stainless-retry-count": "2"})
        samples = (await served.agent.get("/api/sessions/s1/samples")).json()["items"]
    assert await told(tmp_path) == [None, first, second]
    assert [sample["trace_ids"] for sample in samples] == [[third]]


async def test_the_openai_sdk_repeats_a_call_that_its_backend_failed(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        server.faults.append(Fault(status=500))
        async with AsyncOpenAI(base_url=f"{served.url}/sessions/s1/v1", api_key="none", max_retries=2) as client:
            await client.chat.completions.create(model="scripted", messages=HELLO["messages"])
    failed, answered = await recorded(tmp_path)
    assert (failed.status, answered.status, answered.retry_of) == ("backend_error", "ok", failed.trace_id)


async def test_an_equal_body_alone_is_a_new_call(tmp_path: Path) -> None:
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend) as served:
        first = await called(served)
        second = await called(served)
        samples = (await served.agent.get("/api/sessions/s1/samples")).json()["items"]
    assert await told(tmp_path) == [None, None]
    assert [sample["trace_ids"] for sample in samples] == [[first], [second]]


class Away:
    """A store whose database does not answer."""

    async def latest_traces(self, session_id: str, limit: int) -> list[Trace]:
        raise Unavailable("connection refused")

    async def latest_of_key(self, session_id: str, key: str) -> str | None:
        raise Unavailable("connection refused")


async def test_while_the_database_is_away_a_retry_is_found_among_the_calls_in_flight_here() -> None:
    retries = Retries(Away(), shared=True)
    session = Session("s1", datetime(2026, 11, 21, tzinfo=UTC))
    assert await retries.began(session, "t1", {}, b"body") is None
    assert await retries.began(session, "t2", AGAIN, b"other") is None
    assert await retries.began(session, "t3", AGAIN, b"body") == "t1"
    keyed = {"idempotency-key": "k"}
    assert await retries.began(session, "t4", keyed, b"keyed") is None
    assert await retries.began(session, "t5", keyed, b"keyed") == "t4"


async def test_a_retry_is_of_its_own_attempt_at_the_rollout() -> None:
    retries = Retries(Away())
    session = Session("s1", datetime(2026, 11, 21, tzinfo=UTC))
    await retries.began(session, "t1", {}, b"body")
    assert await retries.began(replace(session, attempt=1), "t2", AGAIN, b"body") is None


async def test_a_retry_whose_first_attempt_never_came_repeats_nothing(tmp_path: Path) -> None:
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend) as served:
        await called(served)
        await called(served, headers=AGAIN, seed=7)
        await called(served, "s2", headers=AGAIN)
        response = await served.chat(headers=AGAIN)
    assert response.status_code == 200
    assert await told(tmp_path) == [None] * 4


async def test_a_call_that_the_agent_has_gone_on_from_is_not_repeated(tmp_path: Path) -> None:
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend) as served:
        first = await served.chat(session="s1")
        message = first.json()["choices"][0]["message"]
        going_on = [*HELLO["messages"], message, {"role": "user", "content": "And now?"}]
        await called(served, messages=going_on)
        await called(served, headers=AGAIN)
    before, after, again = await recorded(tmp_path)
    assert after.parent_trace_id == before.trace_id
    assert again.retry_of is None


async def test_an_idempotency_key_that_comes_again_says_so_too(tmp_path: Path) -> None:
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend) as served:
        first = await called(served, headers={"idempotency-key": "k1"})
        await called(served, headers={"idempotency-key": "k2"})
        await called(served, headers={"idempotency-key": "k1"})
        await called(served, headers={"idempotency-key": "k1"}, seed=7)
        await called(served, "s2", headers={"idempotency-key": "k1"})
    assert await told(tmp_path) == [None, None, first, None, None]


async def test_an_attempt_that_still_runs_is_found_and_so_is_one_whose_agent_left(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        server.faults.append(Fault(delay=30.0))
        async with httpx.AsyncClient(base_url=served.url, trust_env=False) as impatient:
            waiting = asyncio.create_task(impatient.post(f"/sessions/s1{CHAT}", json=HELLO))
            await until(lambda: server.calls)
            # While it runs.
            await impatient.post(f"/sessions/s1{CHAT}", json=HELLO, headers=AGAIN)
            waiting.cancel()
            await asyncio.wait([waiting])
        await until(lambda: ("client_disconnected", "none") in served.statuses())
    left, repeated = await recorded(tmp_path)
    assert (left.status, repeated.status, repeated.retry_of) == ("client_disconnected", "ok", left.trace_id)


async def test_what_an_earlier_process_recorded_is_found(tmp_path: Path) -> None:
    async with running(ScriptedServer("vllm")) as backend:
        async with gateway(tmp_path, backend) as served:
            first = await called(served)
        async with gateway(tmp_path, backend) as served:
            await called(served, headers=AGAIN)
    assert await told(tmp_path) == [None, first]


@pytest.mark.parametrize("count", ["", "0", "-1", "many", "1.0"])
async def test_a_count_that_is_none_says_nothing(tmp_path: Path, count: str) -> None:
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend) as served:
        await called(served)
        await called(served, headers={"x-stainless-retry-count": count})
    assert await told(tmp_path) == [None, None]
