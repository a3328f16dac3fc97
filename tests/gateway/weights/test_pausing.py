"""Calls while weights change: none is lost, each trace has the weights that sampled it (docs/promises.md B10, D17)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.scripted import Fault, running
from tests.gateway.harness import CHAT, HELLO, traces_in, until
from tests.gateway.weights.trained import Agents, Trained, gateway, held, post


@pytest.mark.parametrize(
    "server",
    [
        {"engine": "vllm", "version": "0.20.2"},
        {"engine": "vllm", "version": "0.33.0"},
        {"engine": "vllm", "version": "0.33.0", "tells": True},
        {"engine": "sglang", "version": "0.5.23"},
        {"engine": "dynamo"},
    ],
    ids=["silent vllm", "vllm that was told nothing", "vllm", "sglang that was told nothing", "dynamo"],
)
async def test_no_call_is_lost_and_each_has_the_weights_that_sampled_it(tmp_path: Path, server: dict[str, Any]) -> None:
    engines = [Trained(**server), Trained(**server)]
    for engine in engines:
        engine.fault = Fault(delay=0.01)
    async with (
        running(engines[0]) as one,
        running(engines[1]) as two,
        gateway(tmp_path, f"{one},name=one", f"{two},name=two") as served,
    ):
        await post(served, "weight-version", weight_version="v1")
        async with Agents(served, 8) as agents:
            for step in (2, 3):
                await agents.more(10)
                pause = await post(served, "pause", pause_id="update", wait=20)
                assert (pause["drained"], pause["in_flight"]) == (True, 0)
                for engine in engines:
                    engine.load(f"v{step}")
                await asyncio.sleep(0.05)
                await post(served, "weight-version", weight_version=f"v{step}")
                await post(served, "resume", pause_id="update")
            await agents.more(10)
    assert agents.failures == []
    assert {f"by {version}" for version, _ in agents.answers} == {"by v1", "by v2", "by v3"}
    assert [text for _, text in agents.answers] == [f"by {version}" for version, _ in agents.answers]


async def test_a_pause_waits_for_calls_in_flight_and_says_how_many_are_left(tmp_path: Path) -> None:
    engine = Trained()
    async with running(engine) as backend, gateway(tmp_path, backend) as served:
        engine.stall()
        calling = asyncio.create_task(served.chat(session="s"))
        await until(lambda: engine.stalled)
        at_once = await post(served, "pause", pause_id="p")
        assert (at_once["drained"], at_once["in_flight"]) == (False, 1)
        assert [gate["acknowledged"] for gate in at_once["gateways"]] == [True]
        engine.go_on()
        later = await post(served, "pause", pause_id="p", wait=20)
        assert (later["drained"], later["in_flight"], calling.done()) == (True, 0, True)
        assert (await calling).status_code == 200


async def test_calls_that_come_meanwhile_wait_and_their_traces_say_how_long(tmp_path: Path) -> None:
    engine = Trained()
    async with running(engine) as backend, gateway(tmp_path, backend, keepalive_interval=0.1) as served:
        await post(served, "pause", pause_id="p")
        whole = asyncio.create_task(served.chat())
        stream = asyncio.create_task(served.stream())
        await held(served, 2)
        await asyncio.sleep(0.35)
        assert engine.calls == []
        await post(served, "resume", pause_id="p")
        answer, (streamed, body) = await whole, await stream
        assert (answer.status_code, streamed.status_code) == (200, 200)
        # Whoever sees nothing for long gives up, the proxies in between first.
        assert body.count(b": keep-alive\n\n") >= 2
        assert body.endswith(b"data: [DONE]\n\n")
        trace = await served.trace(answer)
        assert 0.3 < trace["metadata"]["held_s"] < 10.0


async def test_calls_are_turned_away_where_the_pause_says_so(tmp_path: Path) -> None:
    engine = Trained()
    async with running(engine) as backend, gateway(tmp_path, backend) as served:
        await post(served, "pause", mode="reject", ttl=30)
        refused = await served.chat(session="s")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "paused")
        assert (refused.headers["retry-after"], refused.headers["x-should-retry"]) == ("5", "true")
        trace = await served.trace(refused)
        assert (trace["status"], trace["attempts"]) == ("rejected", [])
        await post(served, "resume", all=True)
        assert (await served.chat(session="s")).status_code == 200


async def test_a_call_is_held_no_longer_than_it_may(tmp_path: Path) -> None:
    async with running(Trained()) as backend, gateway(tmp_path, backend) as served:
        await post(served, "pause", max_hold=0.2)
        refused = await served.chat()
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "paused")
        assert (await served.trace(refused))["metadata"]["held_s"] >= 0.2


async def test_a_sessions_calls_wait_for_its_backend_while_new_sessions_go_where_it_is_open(tmp_path: Path) -> None:
    engines = {name: Trained() for name in ("one", "two")}
    async with (
        running(engines["one"]) as one,
        running(engines["two"]) as two,
        gateway(tmp_path, f"{one},name=one", f"{two},name=two") as served,
    ):
        home = (await served.trace(await served.chat(session="s")))["backend"]
        await post(served, "pause", pause_id="p", backends=[home])
        for number in range(5):
            assert (await served.trace(await served.chat(session=f"new-{number}")))["backend"] != home
        waiting = asyncio.create_task(served.chat(session="s"))
        await held(served, 1)
        await post(served, "resume", pause_id="p")
        assert (await served.trace(await waiting))["backend"] == home
        await post(served, "pause", backends=[home], move=True)
        assert (await served.trace(await served.chat(session="s")))["backend"] != home


async def test_two_pauses_nest_and_each_is_released_by_its_own_name(tmp_path: Path) -> None:
    async with running(Trained()) as backend, gateway(tmp_path, f"{backend},name=a") as served:
        await post(served, "pause", pause_id="one", owner="trainer")
        await post(served, "pause", pause_id="two", backends=["a"])
        calling = asyncio.create_task(served.chat())
        await held(served, 1)
        first = await post(served, "resume", pause_id="one")
        assert (first["released"], [pause["pause_id"] for pause in first["pauses"]]) == (["one"], ["two"])
        assert (await post(served, "resume", pause_id="one"))["released"] == []
        await asyncio.sleep(0.1)
        assert not calling.done()
        # Of the last one its only backend is let go, and so nothing is left of it.
        assert (await post(served, "resume", backends=["a"]))["released"] == ["two"]
        assert (await calling).status_code == 200


async def test_a_backend_is_let_go_alone_while_the_others_stay_paused(tmp_path: Path) -> None:
    async with (
        running(Trained()) as one,
        running(Trained()) as two,
        gateway(tmp_path, f"{one},name=one", f"{two},name=two") as served,
    ):
        await post(served, "pause", pause_id="p")
        left = await post(served, "resume", backends=["one"])
        assert (left["released"], left["pauses"][0]["released"]) == ([], ["one"])
        backends = [(await served.trace(await served.chat(session=f"s{at}")))["backend"] for at in range(5)]
        assert backends == ["one"] * 5


async def test_a_trainer_that_died_in_the_middle_does_not_stop_the_world(tmp_path: Path) -> None:
    async with running(Trained()) as backend, gateway(tmp_path, backend) as served:
        await post(served, "pause", ttl=0.5)
        answer = await served.chat()
        assert answer.status_code == 200
        assert (await served.trace(answer))["metadata"]["held_s"] > 0.2
        assert (await served.agent.get("/api/admin/pause")).json()["items"] == []


async def test_a_held_call_whose_agent_leaves_is_recorded_and_never_sent(tmp_path: Path) -> None:
    engine = Trained()
    async with running(engine) as backend, gateway(tmp_path, backend) as served:
        await post(served, "pause", pause_id="p")
        calling = asyncio.create_task(served.chat(session="s"))
        await held(served, 1)
        calling.cancel()
        await until(lambda: served.statuses() == [("client_disconnected", "none")])
        await post(served, "resume", pause_id="p")
        await asyncio.sleep(0.1)
        assert engine.calls == []
        (trace,) = (await served.agent.get("/api/traces")).json()["items"]
        assert (trace["backend"], trace["attempts"], trace["metadata"]["held_s"] > 0) == (None, [], True)


async def test_what_is_paused_and_which_weights_there_are_outlives_the_gateway(tmp_path: Path) -> None:
    engine = Trained(version="0.20.2")
    async with running(engine) as backend:
        async with gateway(tmp_path, f"{backend},name=a") as served:
            await post(served, "weight-version", weight_version="v7")
            await post(served, "pause", pause_id="p")
        async with gateway(tmp_path, f"{backend},name=a") as served:
            calling = asyncio.create_task(served.chat())
            await held(served, 1)
            assert engine.calls == []
            await post(served, "resume", pause_id="p")
            assert (await served.trace(await calling))["weight_version"] == "v7"


async def test_a_gateway_that_stops_during_a_pause_ends_its_held_calls(tmp_path: Path) -> None:
    """With an end that says to try again, and a trace."""
    engine = Trained()
    async with running(engine) as backend:
        async with gateway(tmp_path, backend) as served:
            await post(served, "pause")
            calling = asyncio.create_task(served.chat(session="s"))
            await held(served, 1)
        with pytest.raises(httpx.TransportError):
            await calling
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, engine.calls) in (("interrupted", []), ("client_disconnected", []))


async def test_a_stream_over_the_change_has_its_version_token_by_token_or_that_of_its_dispatch(tmp_path: Path) -> None:
    """Whoever does not wait for calls in flight gets what the engine tells, and else what was so at their start."""
    silent = Trained(version="0.20.2")
    async with running(silent) as backend, gateway(tmp_path, backend) as served:
        await post(served, "weight-version", weight_version="v1")
        silent.faults.append(Fault(pause=0.05))
        calling = asyncio.create_task(served.chat(stream=True))
        await until(lambda: silent.calls)
        assert not (await post(served, "pause", pause_id="p"))["drained"]
        await post(served, "weight-version", weight_version="v2")
        await post(served, "resume", pause_id="p")
        over = await served.trace(await calling)
        assert (over["weight_version"], over["metadata"]) == ("v1", {"weight_version_at_end": "v2"})
        after = await served.trace(await served.chat())
        assert (after["weight_version"], after["metadata"]) == ("v2", {})


async def test_agents_reach_no_pause_whatever_path_they_write(tmp_path: Path) -> None:
    engine = Trained()
    async with running(engine) as backend, gateway(tmp_path, backend) as served:
        for path in ("/pause", "/v1/pause", "/sessions/s/v1/../../../pause", "/v1/%2e%2e/pause", "/pause_generation"):
            answer = await served.agent.post(path, json={})
            assert answer.status_code in (404, 405), path
        assert engine.control == []
        assert (await served.agent.post(CHAT, json=HELLO)).status_code == 200
