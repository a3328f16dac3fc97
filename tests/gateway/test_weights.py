"""Which weights sampled (docs/promises.md B10): the version at dispatch, or what the engine says of each token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Router

from adapters.schema import Trace
from adapters.scripts.replies import of_length
from gateway.admission import Admission
from gateway.agents import agent_routes
from gateway.backend import Backend
from gateway.backends import Backends
from gateway.detection import Detection
from gateway.dispatch import Dispatcher
from gateway.exchange import Counters, ExchangeParts, ExchangeSettings
from gateway.habits.budgets import Budgets
from gateway.habits.habits import Habits
from gateway.habits.retries import Retries
from gateway.intake import Intake, IntakeSettings
from gateway.patience import Patience
from gateway.proxy import Proxy, ProxySettings
from gateway.retokenizer import Retokenizer
from gateway.scripted import Fault, ScriptedServer, listening, running
from gateway.sessions import Sessions
from gateway.settings import BackendSettings
from gateway.token_counter import TokenCounter
from gateway.upstream import Upstream
from storage.store import Store
from tests.gateway.harness import CHAT, HELLO, gateway, traces_in
from tests.gateway.twisted import lying


@asynccontextmanager
async def serving(tmp_path: Path, *backends: Backend) -> AsyncIterator[httpx.AsyncClient]:
    """An agent of a gateway whose backends' weights a test changes, as an administrator would."""
    store = Store.open(f"sqlite:///{tmp_path / 'rollouts.db'}", gateway_id="gateway-1")
    try:
        async with Upstream(connect_timeout=1.0) as upstream:
            known = Backends(backends, Detection(upstream, timeout=2.0))
            sessions = Sessions(store)
            parts = ExchangeParts(
                sessions=sessions,
                store=store,
                dispatcher=Dispatcher(known, upstream, first_byte_timeout=10.0),
                retokenizer=Retokenizer(),
                habits=Habits(Budgets(store), Retries(store), aux_rules=True),
                patience=Patience(),
                settings=ExchangeSettings(
                    capture="exact",
                    commit_timeout=10.0,
                    idle_timeout=10.0,
                    total_timeout=10.0,
                    max_answer_bytes=1 << 20,
                ),
                counters=Counters(),
            )
            intake = Intake(IntakeSettings(max_body_bytes=1 << 20, max_bodies_bytes=1 << 24, receive_timeout=10.0))
            proxy = Proxy(parts, ProxySettings("gateway-1", keepalive_interval=10.0), intake, Admission())
            counter = TokenCounter(known, upstream, parts.retokenizer, patience=2.0)
            app = Router([*agent_routes(proxy, intake, sessions, counter, _no_models)])
            async with listening(app) as url, httpx.AsyncClient(base_url=url, trust_env=False) as agent:
                yield agent
    finally:
        await store.close()


async def _no_models() -> bytes:
    return b"{}"


def _backend(url: str, version: str | None) -> Backend:
    return Backend(BackendSettings.parse(url), weight_version=version)


async def _changed_during(server: ScriptedServer, change: Callable[[], None], calling: asyncio.Task[Any]) -> None:
    """Changes the weights once the server is at work on the call."""
    calls = len(server.calls)
    while len(server.calls) == calls:
        await asyncio.sleep(0.005)
    change()
    await calling


@pytest.mark.parametrize("stream", [False, True])
async def test_weights_that_change_during_a_call_leave_it_the_version_of_its_dispatch(
    tmp_path: Path, stream: bool
) -> None:
    """Of an engine that tells nothing of its weights."""
    server = ScriptedServer("vllm", version="0.20.2")
    async with running(server) as url:
        backend = _backend(url, "7")
        async with serving(tmp_path, backend) as agent:
            await agent.post(CHAT, json=HELLO)
            server.faults.append(Fault(delay=0.2))
            calling = asyncio.create_task(agent.post(CHAT, json={**HELLO, "stream": stream}))
            await _changed_during(server, lambda: setattr(backend, "weight_version", "8"), calling)
            await agent.post(CHAT, json=HELLO)
    assert [trace.weight_version for trace in await traces_in(tmp_path / "rollouts.db")] == ["7", "7", "8"]


async def test_a_second_try_has_the_version_of_the_backend_that_answered(tmp_path: Path) -> None:
    servers = [ScriptedServer("vllm", version="0.20.2"), ScriptedServer("vllm", version="0.20.2")]
    async with running(servers[0]) as one, running(servers[1]) as two:
        backends = [_backend(f"{one},name=one", "7"), _backend(f"{two},name=two", "8")]
        async with serving(tmp_path, *backends) as agent:
            await agent.post(f"/sessions/s{CHAT}", json=HELLO)
            first = next(server for server in servers if server.calls)
            first.fault = Fault(silent=True)
            await agent.post(f"/sessions/s{CHAT}", json=HELLO)
    before, after = await traces_in(tmp_path / "rollouts.db")
    assert sorted((trace.weight_version or "", trace.backend or "") for trace in (before, after)) == [
        ("7", "one"),
        ("8", "two"),
    ]


def _spans(*spans: tuple[str, int, int]) -> Callable[[dict[str, Any]], None]:
    told = [{"version": version, "start": start, "end": end} for version, start, end in spans]

    def tell(answer: dict[str, Any]) -> None:
        for choice in answer.get("choices") or ():
            if choice.get("finish_reason"):
                choice["weight_versions"] = told

    return tell


async def _told(
    tmp_path: Path, tell: Callable[[dict[str, Any]], None] | None, *, stream: bool, pinned: str | None
) -> Trace:
    server = ScriptedServer("vllm", reply=of_length(6))
    if tell is not None:
        server.script = lying(server.script, tell)
    async with running(server) as url, serving(tmp_path, _backend(url, pinned)) as agent:
        assert (await agent.post(CHAT, json={**HELLO, "stream": stream})).status_code == 200
    assert server.calls[-1].json["return_weight_versions"] is True
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    return trace


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("pinned", [None, "7"])
async def test_an_answer_that_spans_two_versions_says_so_token_by_token(
    tmp_path: Path, stream: bool, pinned: str | None
) -> None:
    trace = await _told(tmp_path, _spans(("7", 0, 4), ("8", 4, 6)), stream=stream, pinned=pinned)
    spans = trace.choices[0].weight_versions or ()
    assert [(span.version, span.start, span.end) for span in spans] == [("7", 0, 4), ("8", 4, 6)]
    assert (trace.weight_version, trace.fidelity) == ("mixed", "exact")


@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_engine_says_of_the_tokens_stands_above_what_was_known_at_dispatch(
    tmp_path: Path, stream: bool
) -> None:
    trace = await _told(tmp_path, _spans(("8", 0, 6)), stream=stream, pinned="7")
    assert trace.weight_version == "8"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_sees_no_spans_that_it_did_not_ask_for(tmp_path: Path, stream: bool) -> None:
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend) as served:
        assert b"weight_version" not in (await served.chat(stream=stream)).content
        asked = await served.chat(stream=stream, return_weight_versions=True)
    assert b'"weight_versions":[{' in asked.content


@pytest.mark.parametrize(("version", "spans"), [("0.5.18", False), ("0.5.23", True)])
async def test_a_version_that_an_engine_tells_of_its_answer_is_kept(tmp_path: Path, version: str, spans: bool) -> None:
    server = ScriptedServer("sglang", version=version)
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        trace = await served.trace(await served.chat())
    assert trace["weight_version"] == "default"
    assert (trace["choices"][0]["weight_versions"] is not None) == spans


@pytest.mark.parametrize("stream", [False, True])
async def test_spans_stand_above_the_version_at_an_answers_end(tmp_path: Path, stream: bool) -> None:
    """Where an engine tells both, the one that it ended with is not the one that sampled all."""
    told = [{"version": "7", "start": 0, "end": 4}, {"version": "8", "start": 4, "end": 6}]

    def tell(answer: dict[str, Any]) -> None:
        for place in (answer.get("metadata"), *(choice.get("meta_info") for choice in answer["choices"])):
            if place and "weight_versions" in place:
                place |= {"weight_version": "8", "weight_versions": told}

    server = ScriptedServer("sglang", reply=of_length(6))
    server.script = lying(server.script, tell)
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        trace = await served.trace(await served.chat(stream=stream))
    assert trace["weight_version"] == "mixed"
    assert [span["version"] for span in trace["choices"][0]["weight_versions"]] == ["7", "8"]
