"""What a scrape tells of calls that went well, of calls that did not, and of the gateway itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.scripted import Fault, ScriptedServer, running
from gateway.sight import names
from gateway.sight.names import Name
from tests.gateway.harness import HELLO, gateway, until
from tests.gateway.sight.scraping import scraped

VLLM = "engine=vllm,version=0.32.0,name=a"


async def test_an_answer_is_counted_with_its_tokens_and_its_verdict(tmp_path: Path) -> None:
    async with running(ScriptedServer("vllm")) as url, gateway(tmp_path, f"{url},{VLLM}") as served:
        for stream in (False, True):
            answer = await served.chat(session="s1", stream=stream)
            assert answer.status_code == 200
        told = await scraped(served.agent)
        items = (await served.agent.get("/api/sessions/s1/traces")).json()["items"]
    usages = [trace["usage"] for trace in items]
    assert told['calls_total{dialect="chat",engine="vllm",status="ok"}'] == 2
    assert told['verdicts_total{engine="vllm",fidelity="exact"}'] == 2
    assert told['logprobs_verdicts_total{engine="vllm",fidelity="exact"}'] == 2
    assert told['tokens_total{engine="vllm",kind="prompt"}'] == sum(usage["prompt_tokens"] for usage in usages)
    assert told['tokens_total{engine="vllm",kind="completion"}'] == sum(usage["completion_tokens"] for usage in usages)
    assert told["answered_total"] == told["recorded_total"] == told["record_wait_seconds_count"] == 2
    assert told["committed_traces_total"] == 2
    assert told['first_token_seconds_count{backend="a"}'] == 1, "of the stream alone"
    assert told['between_tokens_seconds_count{backend="a"}'] == 1
    assert told['call_seconds_count{dialect="chat"}'] == 2
    assert told['backend_attempts_total{backend="a",result="ok"}'] == 2
    assert told["in_flight_calls"] == 0
    assert told["request_body_bytes"] == 0


async def test_what_the_gateway_is_now_is_told_too(tmp_path: Path) -> None:
    async with running(ScriptedServer("vllm")) as url, gateway(tmp_path, f"{url},{VLLM}") as served:
        await served.chat()
        async with asyncio.timeout(5):
            while "event_loop_lag_seconds_sum" not in (told := await scraped(served.agent)):
                await asyncio.sleep(0.05)
    for name in ("ready", "writer_up", "database_up", "spool_up", 'backend_up{backend="a"}'):
        assert told[name] == 1, name
    for name in ("writer_queued_jobs", "writer_lag_seconds", "spool_traces", "spool_oldest_seconds", "stopping"):
        assert told[name] == 0, name
    assert told['backend_info{backend="a",engine="vllm",source="config",version="0.32.0"}'] == 1
    assert 0 < told['disk_free_bytes{place="spool"}'] < told['disk_size_bytes{place="spool"}']
    assert told['disk_free_bytes{place="database"}'] > 0
    assert told["process_cpu_seconds_total"] > 0


async def test_a_second_try_and_what_it_was_for(tmp_path: Path) -> None:
    dumb = ScriptedServer("vllm", fault=Fault(silent=True))
    async with (
        running(ScriptedServer("vllm")) as url,
        running(dumb) as other,
        gateway(tmp_path, f"{url},{VLLM}", f"{other},engine=vllm,version=0.32.0,name=dumb") as served,
    ):
        for number in range(8):
            assert (await served.chat(session=f"s{number}")).status_code == 200
        told = await scraped(served.agent)
    tried = told['backend_attempts_total{backend="dumb",result="no_answer"}']
    assert tried >= 1
    assert told["failovers_total"] == tried
    assert told['backend_up{backend="dumb"}'] == 0
    assert told['calls_total{dialect="chat",engine="vllm",status="ok"}'] == 8


async def test_a_call_that_a_backend_refuses_and_one_that_the_gateway_does(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", fault=Fault(status=500))
    async with running(server) as url, gateway(tmp_path, f"{url},{VLLM}") as served:
        assert (await served.chat(session="s1")).status_code == 500
        assert (await served.chat(session="s1", messages=7)).status_code == 400
        await served.agent.post("/api/sessions/s1/finish")
        assert (await served.chat(session="s1")).status_code == 409
        told = await scraped(served.agent)
    assert told['backend_attempts_total{backend="a",result="5xx"}'] == 1
    assert told['calls_total{dialect="chat",engine="vllm",status="backend_error"}'] == 1
    assert told['calls_total{dialect="chat",engine="none",status="rejected"}'] == 1
    assert told['refusals_total{reason="invalid_request"}'] == 1
    assert told['refusals_total{reason="session_closed"}'] == 1
    assert told['sessions_ended_total{status="finished"}'] == 1


async def test_keep_alives_and_agents_that_leave(tmp_path: Path) -> None:
    slow = ScriptedServer("vllm", fault=Fault(delay=30.0))
    async with running(slow) as url, gateway(tmp_path, f"{url},{VLLM}", keepalive_interval=0.05) as served:
        async with served.agent.stream("POST", "/v1/chat/completions", json={**HELLO, "stream": True}) as answer:
            async for line in answer.aiter_lines():
                assert line.startswith(":")
                break
        await until(lambda: served.statuses()[-1:] == [("client_disconnected", "none")])
        told = await scraped(served.agent)
    assert told["keepalives_total"] == 1
    assert told['calls_total{dialect="chat",engine="vllm",status="client_disconnected"}'] == 1


@pytest.mark.parametrize("open_to_all", [True, False])
async def test_who_may_read_them(tmp_path: Path, open_to_all: bool) -> None:
    keys = {"keys": "agents", "admin_key": "boss", "metrics_open": open_to_all}
    async with gateway(tmp_path, **keys) as served:
        statuses = {
            key: (await served.agent.get("/metrics", headers={"authorization": f"Bearer {key}"})).status_code
            for key in ("agents", "boss")
        }
        statuses["none"] = (await served.agent.get("/metrics")).status_code
        assert (await served.agent.post("/metrics", headers={"x-api-key": "boss"})).status_code == 405
    if open_to_all:
        assert statuses == {"agents": 200, "boss": 200, "none": 200}
    else:
        assert statuses == {"agents": 403, "boss": 200, "none": 401}


def every_name() -> Iterator[Name]:
    return (each for each in vars(names).values() if isinstance(each, Name))


def test_names_are_unlike_and_say_their_unit() -> None:
    told = [each.name for each in every_name()]
    assert len(told) == len(set(told))
    for name in every_name():
        assert (name.kind == "counter") == name.name.endswith("_total"), name
        assert (name.kind == "histogram") == bool(name.bounds), name
        assert name.kind != "histogram" or name.name.endswith("_seconds"), name


def test_no_label_is_made_by_those_who_call() -> None:
    ours = {"action", "backend", "dialect", "engine", "fidelity", "kind", "place", "reason", "result"}
    ours |= {"source", "state", "status", "version"}
    assert {label for name in every_name() for label in name.labels} <= ours


async def test_no_word_of_a_caller_is_in_them(tmp_path: Path) -> None:
    word = "canary-7f3a"
    async with running(ScriptedServer("vllm")) as url, gateway(tmp_path, f"{url},{VLLM}") as served:
        headers = {"authorization": f"Bearer {word}", "x-request-id": word, "x-rollout-purpose": "eval"}
        await served.chat(session=word, headers=headers, model=word, messages=[{"role": "user", "content": word}])
        await served.agent.get(f"/{word}")
        assert word not in (await served.agent.get("/metrics")).text
