"""Several gateways on one PostgreSQL, with nothing between them but the database (docs/promises.md B11, F12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from adapters.scripts.asked import Asked
from adapters.scripts.replies import Reply, small_talk
from adapters.scripts.speech import Speech, say
from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.harness import Running, gateway
from tests.postgres import Postgres


@dataclass(frozen=True, slots=True)
class Two:
    """Gateways of one database, in front of the same two backends."""

    here: Running
    there: Running
    servers: tuple[ScriptedServer, ScriptedServer]

    async def traces(self, session: str) -> list[dict[str, Any]]:
        listed = (await self.here.agent.get(f"/api/sessions/{session}/traces")).json()
        items: list[dict[str, Any]] = listed["items"]
        return items

    async def session(self, session: str) -> dict[str, Any]:
        told: dict[str, Any] = (await self.here.agent.get(f"/api/sessions/{session}")).json()
        return told


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a gateway on PostgreSQL has its spool."""
    monkeypatch.chdir(tmp_path)


@asynccontextmanager
async def two(tmp_path: Path, postgres: Postgres, reply: Reply = small_talk) -> AsyncIterator[Two]:
    database = postgres.database()
    servers = ScriptedServer("vllm", reply=reply), ScriptedServer("vllm", reply=reply)
    async with running(servers[0]) as a, running(servers[1]) as b:
        backends = (f"{a},name=a", f"{b},name=b")
        folders = tmp_path / "here", tmp_path / "there"
        for folder in folders:
            folder.mkdir()
        async with (
            gateway(folders[0], *backends, database=database) as here,
            gateway(folders[1], *backends, database=database) as there,
        ):
            yield Two(here, there, servers)


async def test_a_session_that_is_finished_at_one_takes_no_calls_at_the_other(
    tmp_path: Path, postgres: Postgres
) -> None:
    async with two(tmp_path, postgres) as gateways:
        assert (await gateways.there.chat(session="s1")).status_code == 200
        await gateways.here.agent.post("/api/sessions/s1/finish")
        await asyncio.sleep(1.0)
        refused = await gateways.there.chat(session="s1")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_closed")


async def test_a_session_that_is_deleted_at_one_stays_deleted_though_a_call_is_in_flight_at_the_other(
    tmp_path: Path, postgres: Postgres
) -> None:
    async with two(tmp_path, postgres) as gateways:
        await gateways.there.chat(session="s1")
        for server in gateways.servers:
            server.faults.append(Fault(delay=0.5))
        in_flight = asyncio.create_task(gateways.there.chat(session="s1"))
        await asyncio.sleep(0.2)
        assert (await gateways.here.agent.delete("/api/sessions/s1")).status_code == 204
        assert (await in_flight).status_code == 200
        at_once = await gateways.there.chat(session="s1")  # Known there as it was, for up to a second.
        await asyncio.sleep(1.0)
        later = await gateways.there.chat(session="s1")
        listed = (await gateways.there.agent.get("/api/sessions/s1")).json()
        left = (await gateways.here.agent.get("/api/traces")).json()["items"]
    assert at_once.status_code in (200, 410)
    assert (later.status_code, later.json()["error"]["code"]) == (410, "session_deleted")
    assert (listed["status"], left) == (410, [])


async def test_a_session_that_begins_at_both_at_once_is_one_with_one_pin(tmp_path: Path, postgres: Postgres) -> None:
    async with two(tmp_path, postgres) as gateways:
        for round_ in range(5):
            session = f"s{round_}"
            answers = await asyncio.gather(
                *(each.chat(session=session) for each in (gateways.here, gateways.there) for _ in range(3))
            )
            assert [answer.status_code for answer in answers] == [200] * 6
            traces = await gateways.traces(session)
            assert [trace["turn"] for trace in traces] == list(range(6))
            await asyncio.sleep(1.0)
            pinned = (await gateways.session(session))["backend"]
            for each in (gateways.here, gateways.there):
                trace = await each.trace(await each.chat(session=session))
                assert trace["backend"] == pinned


async def test_a_budget_is_kept_to_whichever_gateway_a_call_lands_on(tmp_path: Path, postgres: Postgres) -> None:
    async with two(tmp_path, postgres) as gateways:
        asked = {"session_id": "s1", "budgets": {"calls": 5}}
        assert (await gateways.here.agent.post("/api/sessions", json=asked)).status_code == 201
        turns = [gateways.here, gateways.there] * 4
        for each in turns:
            assert (await each.chat(session="s1")).status_code == 200
        statuses = [trace["status"] for trace in await gateways.traces("s1")]
    assert statuses == ["ok"] * 5 + ["rejected"] * 3


async def test_what_was_changed_at_one_is_heeded_at_the_other(tmp_path: Path, postgres: Postgres) -> None:
    async with two(tmp_path, postgres) as gateways:
        first = await gateways.there.trace(await gateways.there.chat(session="s1"))
        changed = await gateways.here.agent.patch("/api/sessions/s1", json={"attempt": 1, "sampling": {"seed": 7}})
        assert changed.status_code == 200
        await asyncio.sleep(1.0)
        again = await gateways.there.trace(await gateways.there.chat(session="s1"))
    assert (first["attempt"], again["attempt"]) == (0, 1)
    assert again["sampling"]["effective"]["seed"] == 7


async def test_a_call_that_is_sent_again_to_the_other_supersedes_the_first(tmp_path: Path, postgres: Postgres) -> None:
    async with two(tmp_path, postgres) as gateways:
        first = await gateways.here.chat(session="s1", headers={"x-stainless-retry-count": "0"})
        again = await gateways.there.chat(session="s1", headers={"x-stainless-retry-count": "1"})
        keyed = await gateways.here.chat(session="s2", headers={"idempotency-key": "k"})
        repeated = await gateways.there.chat(session="s2", headers={"idempotency-key": "k"})
        other = await gateways.there.chat(session="s2", headers={"idempotency-key": "k2"})
        told = [(await gateways.here.trace(answer))["retry_of"] for answer in (first, again, keyed, repeated, other)]
    assert told == [None, first.headers["x-trace-id"], None, keyed.headers["x-trace-id"], None]


async def test_calls_go_on_from_each_other_over_both(tmp_path: Path, postgres: Postgres) -> None:
    async with two(tmp_path, postgres) as gateways:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Say hello."}]
        for turn in range(4):
            each = gateways.there if turn % 2 else gateways.here
            answer = await each.chat(session="s1", messages=messages)
            messages = [*messages, answer.json()["choices"][0]["message"], {"role": "user", "content": "And?"}]
        traces = await gateways.traces("s1")
    assert [trace["turn"] for trace in traces] == [0, 1, 2, 3]
    assert len({trace["gateway_id"] for trace in traces}) == 2
    assert [trace["parent_trace_id"] for trace in traces] == [None, *(trace["trace_id"] for trace in traces[:-1])]


def echo(asked: Asked) -> list[Speech]:
    return [say(f"To {asked.messages[-1].text}")]


async def test_no_token_stands_in_anothers_session(tmp_path: Path, postgres: Postgres) -> None:
    """docs/promises.md D14, in small; the fault harness has it in large."""
    async with two(tmp_path, postgres, echo) as gateways:

        async def rollout(number: int) -> None:
            for turn in range(4):
                each = (gateways.here, gateways.there)[(number + turn) % 2]
                said = [{"role": "user", "content": f"canary-{number:04d}, turn {turn}."}]
                assert (await each.chat(session=f"s{number}", messages=said)).status_code == 200

        await asyncio.gather(*(rollout(number) for number in range(30)))
        emitted = {tuple(call.told_of(0)) for server in gateways.servers for call in server.calls if call.json}
        for number in range(30):
            traces = await gateways.traces(f"s{number}")
            said = [f"To canary-{number:04d}, turn {turn}." for turn in range(4)]
            assert [trace["choices"][0]["text"] for trace in traces] == said
            assert [trace["turn"] for trace in traces] == [0, 1, 2, 3]
            assert {trace["fidelity"] for trace in traces} == {"exact"}
            assert {tuple(trace["choices"][0]["token_ids"]) for trace in traces} <= emitted
