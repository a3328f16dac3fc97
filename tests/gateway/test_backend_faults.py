"""Backends that break (docs/promises.md D1, D2): in mid-answer, and before any byte of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.scripts.replies import of_length
from gateway.scripted import Fault, ScriptedServer, free_port, running
from gateway.scripted.faults import Ending
from tests.gateway.harness import CHAT, HELLO, events, gateway, traces_in

ENDINGS: tuple[Ending, ...] = ("closed", "reset")
BODIES: dict[str, dict[str, Any]] = {
    CHAT: HELLO,
    "/v1/completions": {"model": "scripted", "prompt": "Say hello.", "max_tokens": 32},
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("path", BODIES)
async def test_a_stream_that_dies_has_no_made_up_end_and_leaves_every_token_that_came(
    tmp_path: Path, path: str, n: int, ending: Ending
) -> None:
    """docs/promises.md D1. The pause lets each frame arrive before a reset throws away what was not read."""
    good, bad = ScriptedServer("vllm", reply=of_length(12)), ScriptedServer("vllm", reply=of_length(12))
    async with running(bad) as a, running(good) as b, gateway(tmp_path, f"{a},name=bad", f"{b},name=good") as served:
        # Whichever of the two the session goes to, it dies, and the other is not asked.
        bad.fault = good.fault = Fault(after_frames=9, ending=ending, pause=0.01)
        response = await served.agent.post(path, json={**BODIES[path], "n": n, "stream": True})
    assert response.status_code == 200
    *told, last = events(response.content)
    assert "error" in json.loads(last)
    assert all(choice["finish_reason"] is None for data in told for choice in json.loads(data)["choices"])
    (trace,), (call,) = await traces_in(tmp_path / "rollouts.db"), [*bad.calls, *good.calls]
    assert (trace.status, trace.fidelity) == ("backend_error", "partial")
    assert trace.error is not None
    assert [(attempt.backend, attempt.status) for attempt in trace.attempts] == [(trace.backend, 200)]
    assert [list(choice.token_ids or ()) for choice in trace.choices] == [call.told_of(index) for index in range(n)]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
async def test_a_whole_answer_that_dies_is_an_error_and_is_not_asked_for_again(
    tmp_path: Path, engine: str, ending: Ending
) -> None:
    """docs/promises.md D1. From SGLang the agent's stream is a buffered one: nothing of it has gone out yet."""
    server = ScriptedServer(engine)
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        await served.chat()
        calls = len(server.calls)
        server.faults.append(Fault(after_bytes=300, ending=ending))
        response = await served.chat(stream=engine == "sglang")
        assert len(server.calls) == calls + 1
    assert response.status_code == 502
    assert response.json()["error"]["message"]
    _, trace = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.http_status, trace.fidelity) == ("backend_error", 502, "none")


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: applic",
    ],
)
async def test_an_answer_whose_head_cannot_be_read_is_not_asked_for_again(tmp_path: Path, head: bytes) -> None:
    """docs/promises.md D2: a byte of it had come, so its tokens were sampled."""
    bad, good = ScriptedServer("vllm"), ScriptedServer("vllm")
    async with running(bad) as a, running(good) as b, gateway(tmp_path, f"{a},name=bad", f"{b},name=good") as served:
        bad.fault = good.fault = Fault(raw=head)
        response = await served.chat()
        assert len(bad.calls) + len(good.calls) == 1
    assert response.status_code == 502
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    (attempt,) = trace.attempts
    assert (attempt.status, (attempt.error or "").startswith("cut_short: the backend's answer can't be read")) == (
        None,
        True,
    )


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("stream", [False, True])
async def test_no_byte_at_all_is_a_502_after_one_more_try(tmp_path: Path, ending: Ending, stream: bool) -> None:
    """docs/promises.md D2, of a backend that stands alone."""
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, f"{backend},name=only") as served:
        await served.chat()
        server.fault = Fault(silent=True, ending=ending)
        response = await served.chat(stream=stream)
    assert response.status_code == 502
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    assert len(server.calls) == 3
    _, trace = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.http_status, trace.choices) == ("backend_error", 502, ())
    assert [(attempt.backend, attempt.status) for attempt in trace.attempts] == [("only", None)] * 2
    assert all("no_answer" in (attempt.error or "") for attempt in trace.attempts)


async def test_a_backend_that_comes_to_refuse_is_passed_over_and_that_is_recorded(tmp_path: Path) -> None:
    """docs/promises.md D2: it was there when it was asked what it is, and gone when it was called."""
    going, staying = ScriptedServer("vllm"), ScriptedServer("vllm")
    port = free_port()
    async with running(staying) as b, gateway(tmp_path, f"http://127.0.0.1:{port},name=a", f"{b},name=b") as served:
        async with running(going, port=port):
            sessions = [f"s{i}" for i in range(8)]
            before = [(await served.chat(session=session)).status_code for session in sessions]
        after = [(await served.chat(session=session)).status_code for session in sessions]
    assert before == after == [200] * 8
    assert going.calls
    tried = [
        [(each.backend, each.status) for each in trace.attempts] for trace in await traces_in(tmp_path / "rollouts.db")
    ]
    # The first call that went to it; the others knew already.
    assert tried.count([("a", None), ("b", 200)]) == 1
    assert all(attempts[-1] == ("b", 200) for attempts in tried[8:])


async def test_with_nobody_to_try_there_is_a_503_and_both_tries_are_recorded(tmp_path: Path) -> None:
    """docs/promises.md D2."""
    one, two = (f"http://127.0.0.1:{free_port()},name={name},engine=vllm" for name in ("one", "two"))
    async with gateway(tmp_path, one, two) as served:
        response = await served.chat(stream=True)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "no_backend")
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.http_status) == ("backend_error", 503)
    assert sorted(attempt.backend for attempt in trace.attempts) == ["one", "two"]
    assert all((attempt.error or "").startswith("refused:") for attempt in trace.attempts)
