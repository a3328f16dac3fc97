"""Pauses and weights of several gateways on one PostgreSQL: what one is told all heed, and «drained» means all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.scripted import Fault, running
from tests.gateway.harness import Running, until
from tests.gateway.weights.trained import Agents, Trained, gateway, held, post
from tests.postgres import Postgres


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a gateway on PostgreSQL has its spool."""
    monkeypatch.chdir(tmp_path)


@asynccontextmanager
async def two(tmp_path: Path, database: str, engine: Trained) -> AsyncIterator[tuple[Running, Running]]:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    async with (
        running(engine) as backend,
        gateway(tmp_path / "here", f"{backend},name=a", database=database) as here,
        gateway(tmp_path / "there", f"{backend},name=a", database=database) as there,
    ):
        yield here, there


async def test_no_call_is_lost_at_either_and_each_has_its_version(tmp_path: Path, postgres: Postgres) -> None:
    """The one that was not asked has the new version before it lets a call through."""
    engine = Trained(version="0.20.2")
    engine.fault = Fault(delay=0.01)
    async with two(tmp_path, postgres.database(), engine) as (here, there):
        await post(here, "weight-version", weight_version="v1")
        await asyncio.sleep(1.0)
        ours, theirs = Agents(here, 3), Agents(there, 3)
        async with ours, theirs:
            for step in (2, 3):
                await asyncio.gather(ours.more(5), theirs.more(5))
                pause = await post(here, "pause", pause_id="update", wait=20)
                assert (pause["drained"], len(pause["gateways"])) == (True, 2)
                engine.load(f"v{step}")
                await post(here, "weight-version", weight_version=f"v{step}")
                await post(here, "resume", pause_id="update")
            await asyncio.gather(ours.more(5), theirs.more(5))
        assert ours.failures == theirs.failures == []
        for agents in (ours, theirs):
            assert {version for version, _ in agents.answers} == {"v1", "v2", "v3"}
            assert all(text == f"by {version}" for version, text in agents.answers)
        events = (await there.agent.get("/api/admin/weight-events")).json()["items"]
        assert [each["weight_version"] for each in events] == ["v1", "v2", "v3"]


async def test_drained_is_when_the_other_has_heard_of_it_and_its_calls_have_ended(
    tmp_path: Path, postgres: Postgres
) -> None:
    engine = Trained()
    async with two(tmp_path, postgres.database(), engine) as (here, there):
        engine.stall()
        calling = asyncio.create_task(there.chat())
        await until(lambda: engine.stalled)
        at_once = await post(here, "pause", pause_id="p")
        assert not at_once["drained"]
        heard = await post(here, "pause", pause_id="p", wait=2.5)
        assert (heard["drained"], heard["in_flight"]) == (False, 1)
        assert [gate["acknowledged"] for gate in heard["gateways"]] == [True, True]
        engine.go_on()
        later = await post(here, "pause", pause_id="p", wait=20)
        assert (later["drained"], later["in_flight"]) == (True, 0)
        assert (await calling).status_code == 200


async def test_a_pause_at_one_holds_at_the_other_within_a_second_or_so_and_ends_there_too(
    tmp_path: Path, postgres: Postgres
) -> None:
    engine = Trained()
    async with two(tmp_path, postgres.database(), engine) as (here, there):
        pause = await post(here, "pause", pause_id="p", wait=20)
        assert pause["drained"]
        calling = asyncio.create_task(there.chat())
        await held(here, 1)
        assert engine.calls == []
        began = time.monotonic()
        # Whoever asks the other gateway ends it as well.
        assert (await post(there, "resume", pause_id="p"))["released"] == ["p"]
        assert (await calling).status_code == 200
        again = await here.chat()
        assert again.status_code == 200
        assert time.monotonic() - began < 10.0


async def test_a_gateway_that_never_hears_is_waited_for_until_it_is_silent(
    tmp_path: Path, own_postgres: Postgres
) -> None:
    """One that died has calls no more, but nobody can know that at once."""
    engine = Trained()
    database = own_postgres.database()
    async with two(tmp_path, database, engine) as (here, _):
        name = database.rpartition("/")[2]
        own_postgres.run("INSERT INTO gateways (gateway_id, heartbeat_at, spool_depth) VALUES ('dead', now(), 0)", name)
        waiting = await post(here, "pause", pause_id="p", wait=2)
        assert not waiting["drained"]
        (gate,) = [gate for gate in waiting["gateways"] if gate["gateway_id"] == "dead"]
        assert (gate["acknowledged"], gate["in_flight"]) == (False, None)
        own_postgres.run("UPDATE gateways SET heartbeat_at = now() - interval '31 s' WHERE gateway_id = 'dead'", name)
        silent = await post(here, "pause", pause_id="p", wait=20)
        assert (silent["drained"], silent["silent"]) == (True, ["dead"])


async def test_an_engine_whose_trainer_died_is_resumed_by_one_of_them(tmp_path: Path, postgres: Postgres) -> None:
    engine = Trained()
    async with two(tmp_path, postgres.database(), engine) as (here, there):
        await post(here, "pause", ttl=1.0, engine="wait")
        await until(lambda: [call.route for call in engine.control] == ["/pause", "/resume"])
        answers = await asyncio.gather(here.chat(), there.chat())
        assert [answer.status_code for answer in answers] == [200, 200]
        await asyncio.sleep(0.7)
        assert [call.route for call in engine.control] == ["/pause", "/resume"]


async def test_a_pause_ends_by_itself_though_its_database_is_away(tmp_path: Path, own_postgres: Postgres) -> None:
    engine = Trained()
    async with two(tmp_path, own_postgres.database(), engine) as (here, there):
        await post(here, "pause", pause_id="p", wait=20, ttl=3.0)
        calls = [asyncio.create_task(each.chat(session="s")) for each in (here, there)]
        await held(here, 2)
        own_postgres.pause()
        try:
            answers = await asyncio.gather(*calls)
        finally:
            own_postgres.resume()
        assert [answer.status_code for answer in answers] == [200, 200]
