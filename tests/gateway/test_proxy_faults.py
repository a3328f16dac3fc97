"""Calls that do not go well, from end to end: backends that break or keep silent, agents that leave."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from adapters.scripts.replies import of_length
from gateway.scripted import Fault, ScriptedServer, free_port, running
from tests.gateway.harness import CHAT, HELLO, Running, events, gateway, traces_in, until


@pytest.fixture
def vllm() -> ScriptedServer:
    return ScriptedServer("vllm")


async def test_a_backends_refusal_keeps_its_status_and_words(tmp_path: Path, vllm: ScriptedServer) -> None:
    refusal = b'{"error":{"message":"max_tokens is too large","type":"BadRequestError","param":null,"code":400}}'
    async with running(vllm) as backend, gateway(tmp_path, backend) as served:
        await served.chat()
        vllm.faults.append(Fault(status=400, body=refusal, content_type="application/json"))
        response = await served.chat(stream=True)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    assert response.json()["error"]["message"] == "max_tokens is too large"
    _, trace = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.http_status) == ("backend_error", 400)
    assert trace.error is not None
    assert trace.error.message == "max_tokens is too large"


@pytest.mark.parametrize("ending", ["closed", "reset"])
async def test_a_backend_killed_in_mid_stream_ends_in_an_error_event(tmp_path: Path, ending: str) -> None:
    """docs/promises.md D1: no made-up end, all tokens received are in the trace, no second try."""
    server = ScriptedServer("vllm", reply=of_length(12))
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        await served.chat()
        server.faults.append(Fault(after_frames=6, ending=ending, pause=0.01))  # type: ignore[arg-type]
        response, body = await served.stream()
    assert response.status_code == 200
    assert b"[DONE]" not in body
    assert "error" in json.loads(events(body)[-1])
    _, trace = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.fidelity) == ("backend_error", "partial")
    assert list(trace.choices[0].token_ids or ()) == server.calls[-1].told_of(0)
    assert len(server.calls) == 2


@pytest.mark.parametrize("ending", ["closed", "hung"])
async def test_a_stream_that_has_said_its_end_is_whole_however_its_connection_ends(tmp_path: Path, ending: str) -> None:
    server = ScriptedServer("vllm", reply=of_length(12))
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        await served.chat()
        # After its last frame, `[DONE]`, and before the end of its chunked body.
        server.faults.append(Fault(after_frames=1000, ending=ending))  # type: ignore[arg-type]
        _, body = await served.stream()
        assert (await served.chat()).status_code == 200
    assert body.endswith(b"data: [DONE]\n\n")
    assert b'"error"' not in body
    _, trace, _ = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.fidelity, trace.error) == ("ok", "exact", None)
    assert list(trace.choices[0].token_ids or ()) == server.calls[1].told_of(0)


@pytest.mark.parametrize("fault", [Fault(silent=True), Fault(silent=True, ending="reset")])
async def test_no_byte_back_is_tried_once_more_on_another_backend(tmp_path: Path, fault: Fault) -> None:
    """docs/promises.md D2."""
    bad, good = ScriptedServer("vllm", fault=fault), ScriptedServer("vllm")
    async with running(bad) as a, running(good) as b, gateway(tmp_path, f"{a},name=bad", f"{b},name=good") as served:
        for i in range(6):
            assert (await served.chat(session=f"s{i}")).status_code == 200
    traces = await traces_in(tmp_path / "rollouts.db")
    tried = [[(attempt.backend, attempt.status) for attempt in trace.attempts] for trace in traces]
    assert [("bad", None), ("good", 200)] in tried
    assert all(attempts[-1] == ("good", 200) for attempts in tried)
    assert len(good.calls) == 6


async def test_a_refused_connection_is_tried_once_more_on_another_backend(tmp_path: Path) -> None:
    good = ScriptedServer("vllm")
    dead = f"http://127.0.0.1:{free_port()},name=dead,engine=vllm"
    async with running(good) as backend, gateway(tmp_path, dead, f"{backend},name=good") as served:
        statuses = [(await served.chat(session=f"s{i}")).status_code for i in range(8)]
    assert statuses == [200] * 8


async def test_with_all_backends_dead_there_is_a_503_in_the_dialects_shape(tmp_path: Path) -> None:
    async with gateway(tmp_path, f"http://127.0.0.1:{free_port()}") as served:
        response = await served.chat(stream=True)
        ready = await served.agent.get("/readyz")
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "no_backend"
    assert ready.status_code == 503


async def _gone(served: Running, server: ScriptedServer, *, stream: bool, after: float) -> None:
    """Call, and close the connection after so many seconds."""
    with pytest.raises(httpx.ReadTimeout):
        await served.agent.post(CHAT, json={**HELLO, "stream": stream}, timeout=after)
    await until(lambda: not any(call.open for call in server.calls), 10)  # Half of what the backend would take.


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_that_leaves_before_the_first_byte_closes_the_backends_request(
    tmp_path: Path, stream: bool
) -> None:
    """docs/promises.md D4: in prefill, streamed and not."""
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        await served.chat()
        server.faults.append(Fault(delay=20))
        await _gone(served, server, stream=stream, after=0.3)
        await until(lambda: served.statuses()[-1][0] == "client_disconnected")
    _, trace = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.fidelity) == ("client_disconnected", "none")


async def test_an_agent_that_leaves_in_mid_stream_leaves_the_tokens_so_far(tmp_path: Path) -> None:
    """docs/promises.md D4."""
    server = ScriptedServer("vllm", reply=of_length(400))
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        server.fault = Fault(pause=0.02)
        async with served.agent.stream("POST", CHAT, json={**HELLO, "max_tokens": 400, "stream": True}) as response:
            seen = b""
            async for data in response.aiter_raw():
                seen += data
                if seen.count(b"data: ") > 5:
                    break
        await until(lambda: not any(call.open for call in server.calls))
        await until(lambda: served.statuses() == [("client_disconnected", "partial")])
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    ids = list(trace.choices[0].token_ids or ())
    assert len(ids) >= 4
    assert ids == server.calls[-1].told_of(0)[: len(ids)]


async def test_html_with_status_200_is_no_answer(tmp_path: Path, vllm: ScriptedServer) -> None:
    """docs/promises.md D12."""
    page = Fault(status=200, body=b"<html>Bad gateway</html>", content_type="text/html")
    async with running(vllm) as backend, gateway(tmp_path, backend) as served:
        await served.chat()
        vllm.faults.extend([page, page])
        whole = await served.chat()
        stream = await served.chat(stream=True)
    assert (whole.status_code, stream.status_code) == (502, 502)
    assert [trace.status for trace in await traces_in(tmp_path / "rollouts.db")] == ["ok", *["backend_error"] * 2]


async def test_nothing_for_an_interval_brings_a_comment_and_then_the_answer(
    tmp_path: Path, vllm: ScriptedServer
) -> None:
    """Proxies and clients give up a connection on which nothing comes, and a long prompt takes its time."""
    async with running(vllm) as backend, gateway(tmp_path, backend, keepalive_interval=0.1) as served:
        await served.chat()
        vllm.faults.append(Fault(delay=0.5))
        _, body = await served.stream()
    assert body.startswith(b": keep-alive\n\n")
    assert body.endswith(b"data: [DONE]\n\n")


async def test_a_failure_after_a_keep_alive_is_an_event_in_the_stream(tmp_path: Path, vllm: ScriptedServer) -> None:
    async with running(vllm) as backend, gateway(tmp_path, backend, keepalive_interval=0.1) as served:
        await served.chat()
        vllm.faults.append(Fault(delay=0.5, status=400, body=b'{"message":"no","type":"x","code":400}'))
        response, body = await served.stream()
    assert response.status_code == 200
    assert json.loads(events(body)[-1])["error"]["message"] == "no"
    assert b"[DONE]" not in body


async def test_a_backend_that_is_silent_in_mid_stream_is_given_up(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", reply=of_length(12))
    async with running(server) as backend, gateway(tmp_path, backend, idle_timeout=0.3) as served:
        await served.chat()
        server.faults.append(Fault(after_frames=5, ending="hung"))
        _, body = await served.stream()
    assert json.loads(events(body)[-1])["error"]["code"] == "backend_timeout"
    _, trace = await traces_in(tmp_path / "rollouts.db")
    assert trace.status == "backend_error"
    assert len(trace.choices[0].token_ids or ()) >= 3


async def test_a_backend_that_does_not_begin_is_a_504(tmp_path: Path, vllm: ScriptedServer) -> None:
    async with running(vllm) as backend, gateway(tmp_path, backend, first_byte_timeout=0.2) as served:
        await served.chat()
        vllm.faults.append(Fault(delay=5))
        response = await served.chat()
    assert response.status_code == 504
    assert response.json()["error"]["code"] == "backend_timeout"


async def test_a_call_whose_time_was_up_before_its_backend_began_tells_whom_it_had_asked(
    tmp_path: Path, vllm: ScriptedServer
) -> None:
    async with running(vllm) as backend, gateway(tmp_path, backend, total_timeout=0.5) as served:
        await served.chat()
        vllm.faults.append(Fault(delay=20))
        response = await served.chat()
    _, trace = await traces_in(tmp_path / "rollouts.db")
    assert (response.status_code, trace.status) == (504, "backend_error")
    assert [attempt.backend for attempt in trace.attempts] == [trace.backend]


async def test_a_refusal_that_never_ended_tells_the_status_that_had_come(tmp_path: Path, vllm: ScriptedServer) -> None:
    async with running(vllm) as backend, gateway(tmp_path, backend, total_timeout=0.5) as served:
        await served.chat()
        vllm.faults.append(
            Fault(status=500, body=b'{"error": {"message": "out of memory"}}', after_bytes=12, ending="hung")
        )
        response = await served.chat()
    _, trace = await traces_in(tmp_path / "rollouts.db")
    assert (response.status_code, trace.status) == (504, "backend_error")
    assert [attempt.status for attempt in trace.attempts] == [500]
