"""An agent's call from end to end, over real sockets, against scripted servers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.scripts.replies import of_length
from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.harness import CHAT, HELLO, events, gateway, traces_in, until


@pytest.fixture
def vllm() -> ScriptedServer:
    return ScriptedServer("vllm")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_is_a_trace_with_the_ids_and_logprobs_that_were_sampled(
    tmp_path: Path, vllm: ScriptedServer, stream: bool
) -> None:
    async with running(vllm) as backend, gateway(tmp_path, backend) as served:
        response = await served.chat(session="s1", stream=stream)
        assert response.status_code == 200
        assert response.headers["x-session-id"] == "s1"
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    (speech,) = vllm.calls[-1].speeches
    assert (trace.trace_id, trace.session_id, trace.turn) == (response.headers["x-trace-id"], "s1", 0)
    assert (trace.status, trace.http_status, trace.fidelity, trace.fidelity_reason) == ("ok", 200, "exact", None)
    assert trace.plan == ("streamed" if stream else "whole")
    assert trace.prompt_token_ids is not None
    assert trace.usage is not None
    assert len(trace.prompt_token_ids) == trace.usage.prompt_tokens
    (choice,) = trace.choices
    assert choice.token_ids is not None
    assert tuple(choice.token_ids) == speech.ids
    assert choice.logprobs == speech.logprobs
    assert (choice.text, choice.finish_reason) == (speech.text("content"), "stop")
    assert trace.request.body == json.dumps({**HELLO, "stream": stream}, separators=(",", ":")).encode()
    assert (trace.dialect, trace.engine, trace.model) == ("chat", "vllm", "scripted")
    assert [attempt.status for attempt in trace.attempts] == [200]
    assert trace.duration_ms is not None
    assert (trace.first_token_ms is not None) == stream


@pytest.mark.parametrize("stream", [False, True])
async def test_the_agent_sees_what_it_would_see_without_the_gateway(
    tmp_path: Path, vllm: ScriptedServer, stream: bool
) -> None:
    body = {**HELLO, "stream": stream}
    async with running(vllm) as backend, gateway(tmp_path, backend) as served, httpx.AsyncClient() as plain:
        await served.chat(stream=stream)
        direct = await plain.post(backend + CHAT, json=body)
        through = await served.chat(stream=stream)
    assert through.headers["content-type"] == direct.headers["content-type"]
    if stream:
        ours, theirs = map(_chunks, (through.content, direct.content))
        assert ours == theirs
    else:
        assert _unstamped(json.loads(through.content)) == _unstamped(json.loads(direct.content))


def _unstamped(answer: Any) -> Any:
    """The answer but for its stamps, and for members that are null, as vLLM prints those of flags that were not set."""
    if isinstance(answer, list):
        return [_unstamped(item) for item in answer]
    if not isinstance(answer, dict):
        return answer
    return {k: _unstamped(v) for k, v in answer.items() if k not in ("id", "created") and v is not None}


def _chunks(stream: bytes) -> list[Any]:
    return [data if data == b"[DONE]" else _unstamped(json.loads(data)) for data in events(stream)]


async def test_the_trace_is_committed_before_the_agent_has_the_end(tmp_path: Path, vllm: ScriptedServer) -> None:
    """docs/promises.md B2, F3: reading right after the answer misses nothing."""
    async with running(vllm) as backend, gateway(tmp_path, backend) as served:
        for i in range(40):
            response = await served.chat(session=f"s{i % 4}", stream=bool(i % 2))
            assert response.status_code == 200
            assert served.statuses() == [("ok", "exact")] * (i + 1)


async def test_text_chunks_are_not_held(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", reply=of_length(6), fault=Fault(after_frames=4, ending="hung"))
    async with (
        running(server) as backend,
        gateway(tmp_path, backend) as served,
        served.agent.stream("POST", CHAT, json={**HELLO, "stream": True}) as response,
    ):
        seen = b""
        chunks = response.aiter_raw()
        while seen.count(b"data: ") < 4:
            seen += await anext(chunks)
        await until(lambda: served.statuses() == [("running", "none")])


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"{", 400, "not valid JSON"),
        (b"[]", 400, "must be a JSON object"),
        (b'{"model": "scripted"}', 400, "`messages` is missing"),
        (b'{"model": "nobody", "messages": []}', 404, "`nobody` is not served"),
        (b'{"messages": "' + b"x" * 2000 + b'"}', 413, "larger than 1500 bytes"),
    ],
)
async def test_bad_input_gets_the_dialects_error_and_a_sentence_that_helps(
    tmp_path: Path, vllm: ScriptedServer, body: bytes, status: int, says: str
) -> None:
    async with running(vllm) as backend, gateway(tmp_path, backend, max_body_bytes=1500) as served:
        response = await served.agent.post(CHAT, content=body)
    assert response.status_code == status
    assert says in response.json()["error"]["message"]
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.http_status) == ("rejected", status)
    assert vllm.calls == []


async def test_a_body_of_100_mb_is_refused_with_a_413_that_the_client_can_read(
    tmp_path: Path, vllm: ScriptedServer
) -> None:
    async with running(vllm) as backend, gateway(tmp_path, backend) as served:
        response = await served.agent.post(CHAT, content=b'{"messages":"' + b"x" * 100_000_000 + b'"}')
    assert response.status_code == 413
    assert "max_body_bytes" in response.json()["error"]["message"]


async def test_no_backend_is_a_503_that_says_what_to_do(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        response = await served.chat()
    assert response.status_code == 503
    assert "--backend" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../update_weights",
        "/v1/%2e%2e/collective_rpc",
        "/v1/../../sleep",
        "/v1/%2E%2E%2Fsleep",
        "/sessions/a/v1/../../../update_weights",
        "/sessions/..%2f..%2fsleep/v1/chat/completions",
        "/v1/chat/completions/../../../sleep",
        "//update_weights",
        "/v1//chat/completions",
        "/update_weights",
        "/v1/embeddings",
    ],
)
async def test_what_is_no_endpoint_of_ours_reaches_no_backend(tmp_path: Path, vllm: ScriptedServer, path: str) -> None:
    """docs/promises.md F1: the path is written to the socket as it stands, for clients tidy it up."""
    async with running(vllm) as backend, gateway(tmp_path, backend) as served:
        host, port = served.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps(HELLO).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        status = int((await reader.readline()).split()[1])
        writer.close()
        await writer.wait_closed()
    assert status in (400, 404)
    assert [call.route for call in vllm.requests if call.method == "POST"] == []


async def test_a_wrong_method_is_a_405_in_the_dialects_shape(tmp_path: Path, vllm: ScriptedServer) -> None:
    async with running(vllm) as backend, gateway(tmp_path, backend) as served:
        response = await served.agent.get(CHAT)
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert response.json()["error"]["code"] == "method_not_allowed"


async def test_the_agents_credentials_never_go_upstream(tmp_path: Path, vllm: ScriptedServer) -> None:
    secret = {"authorization": "Bearer sk-agent", "x-api-key": "sk-agent", "cookie": "sk-agent", "x-other": "sk-agent"}
    async with running(vllm) as backend, gateway(tmp_path, backend) as served:
        await served.chat(headers=secret)
    assert b"sk-agent" not in b"".join(repr(call.headers).encode() for call in vllm.requests)
    assert b"sk-agent" not in (tmp_path / "rollouts.db").read_bytes()


async def test_a_backends_own_key_goes_to_it_alone(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", api_key="sk-backend")
    async with (
        running(server) as backend,
        gateway(tmp_path, f"{backend},api_key_env=KEY", environ={"KEY": "sk-backend"}) as served,
    ):
        response = await served.chat()
    assert response.status_code == 200
    assert b"sk-backend" not in (tmp_path / "rollouts.db").read_bytes()


async def test_a_json_answer_to_a_client_that_asked_for_a_stream_is_streamed_to_it(
    tmp_path: Path, vllm: ScriptedServer
) -> None:
    """docs/promises.md C1: the dialect decides the shape by what was asked."""
    answer = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}],
    }
    async with running(vllm) as backend, gateway(tmp_path, backend) as served:
        await served.chat()
        vllm.faults.append(Fault(body=json.dumps(answer).encode(), content_type="application/json"))
        response, body = await served.stream()
    assert response.headers["content-type"].startswith("text/event-stream")
    assert "".join(json.loads(e)["choices"][0]["delta"].get("content", "") for e in events(body)[:-1]) == "Hi."
    assert events(body)[-1] == b"[DONE]"


async def test_models_are_those_of_all_backends(tmp_path: Path) -> None:
    one, two = ScriptedServer("vllm", model="one"), ScriptedServer("vllm", model="two")
    async with running(one) as a, running(two) as b, gateway(tmp_path, a, b) as served:
        response = await served.agent.get("/v1/models")
        assert [model["id"] for model in response.json()["data"]] == ["one", "two"]
        for model, server in (("one", one), ("two", two)):
            assert (await served.chat(model=model)).status_code == 200
            assert len(server.calls) == 1


async def test_a_session_stays_with_its_backend(tmp_path: Path) -> None:
    one, two = ScriptedServer("vllm"), ScriptedServer("vllm")
    async with running(one) as a, running(two) as b, gateway(tmp_path, a, b) as served:
        # Where a session goes depends on the ports: that all of these go to one backend happens once in 500,000 runs.
        for session in range(20):
            before = len(one.calls), len(two.calls)
            for _ in range(2):
                await served.chat(session=f"s{session}")
            gained = len(one.calls) - before[0], len(two.calls) - before[1]
            assert sorted(gained) == [0, 2]
    assert one.calls
    assert two.calls
