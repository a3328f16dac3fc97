"""What an Anthropic client gets when something is wrong: always an error of Anthropic's, and never a clean end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from adapters.scripts.replies import of_length
from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.anthropic_client import ASKED, SERVERS, TOOL, served, streamed
from tests.gateway.harness import gateway, traces_in
from tests.gateway.test_held_bytes import locked, no_file_larger_than

OVERFLOWS = {
    "prompt": (
        "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens.",
        "prompt is too long: 2049 tokens > 2048 maximum",
    ),
    "answer": (
        "`x` is too large: 4000. The context length is 4096 tokens and your request has 1000 input tokens",
        "input length and `max_tokens` exceed context limit: 1000 + 4000 > 4096",
    ),
}


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_context_overflow_is_what_agents_summarise_at(tmp_path: Path, stream: bool, overflow: str) -> None:
    """docs/promises.md C3."""
    said, told = OVERFLOWS[overflow]
    refusal = {"error": {"message": said, "type": "BadRequestError", "param": None, "code": 400}}
    server = ScriptedServer("vllm", fault=Fault(status=400, body=json.dumps(refusal).encode()))
    async with served(tmp_path, server) as (client, _):
        with pytest.raises(anthropic.BadRequestError) as caught:
            await (streamed(client, **ASKED) if stream else client.messages.create(**ASKED))
    assert caught.value.type == "invalid_request_error"
    assert (caught.value.api_message or "").startswith(told)
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.http_status, trace.error and trace.error.message) == ("backend_error", 400, said)


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (404, anthropic.NotFoundError, "not_found_error"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (503, anthropic.ServiceUnavailableError, "overloaded_error"),
    ],
)
async def test_a_backends_refusal_is_one_of_anthropics(
    tmp_path: Path, status: int, error: type[anthropic.APIStatusError], kind: str
) -> None:
    server = ScriptedServer("vllm", fault=Fault(status=status, body=b'{"error":{"message":"No.","type":"X"}}'))
    async with served(tmp_path, server) as (client, _):
        with pytest.raises(error) as caught:
            await client.messages.create(**ASKED)
    assert (caught.value.type, caught.value.api_message) == (kind, "No.")
    assert caught.value.request_id == caught.value.response.headers["x-request-id"]


async def _read(stream: AsyncIterator[Any], names: list[str]) -> None:
    """Into `names` the events' types, also of a stream that then raises."""
    async for event in stream:
        names.append(event.type)  # noqa: PERF401


@pytest.mark.parametrize(("engine", "version", "variant"), SERVERS)
async def test_an_error_in_mid_stream_is_an_error_event_and_no_end(
    tmp_path: Path, engine: str, version: str | None, variant: str | None
) -> None:
    event = b'data: {"error":{"message":"CUDA out of memory","type":"InternalServerError","code":500}}\n\n'
    server = ScriptedServer(engine, version=version, variant=variant, reply=of_length(8))
    names: list[str] = []
    async with served(tmp_path, server, capture="stream") as (client, _):
        # With a pause, or it is read together with what came before it, and is a status.
        server.fault = Fault(insert={4: event}, after_frames=4, pause=0.01)
        stream = await client.messages.create(**{**ASKED, "tools": []}, stream=True)
        with pytest.raises(anthropic.APIStatusError) as caught:
            await _read(stream, names)
    assert (caught.value.type, caught.value.api_message) == ("api_error", "CUDA out of memory")
    assert names[:2] == ["message_start", "content_block_start"]
    assert "message_delta" not in names
    assert "message_stop" not in names
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert trace.status == "backend_error"


async def test_no_end_of_a_message_comes_before_its_trace_is_committed(tmp_path: Path) -> None:
    """docs/promises.md B2: text is not held; the stop reason is, and all that comes with it."""
    server = ScriptedServer("vllm", reply=of_length(6))
    async with served(tmp_path, server) as (client, through):
        await client.messages.create(**ASKED)
        with locked(through.database):
            stream = aiter(await client.messages.create(**ASKED, stream=True))
            words = 0
            while words < 5:
                event = await anext(stream)
                words += event.type == "content_block_delta"
            ending = asyncio.ensure_future(anext(stream))
            await server.settled()
            assert (await asyncio.wait([ending], timeout=0.3))[0] == set()
            assert through.statuses() == [("ok", "exact")]
        rest = [await ending, *[event async for event in stream]]
        assert through.statuses() == [("ok", "exact")] * 2
    assert [event.type for event in rest][-2:] == ["message_delta", "message_stop"]


@pytest.mark.parametrize("stream", [False, True])
async def test_without_a_record_there_is_no_end_of_a_message(tmp_path: Path, stream: bool) -> None:
    server = ScriptedServer("vllm", reply=of_length(6))
    with no_file_larger_than(8 << 20):  # As each of a spool's is.
        async with served(tmp_path, server, commit_timeout=0.2) as (client, through):
            await client.messages.create(**ASKED)
            with locked(through.database), pytest.raises(anthropic.APIStatusError) as caught:
                await (streamed(client, **ASKED) if stream else client.messages.create(**ASKED))
    assert (caught.value.type, caught.value.status_code) == ("overloaded_error", 200 if stream else 503)


def _asked(**fields: Any) -> bytes:
    return json.dumps({**ASKED, **fields}).encode()


_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * (20 << 20)}}
_NEST = b'{"type":"tool_result","tool_use_id":"a","content":['
BAD = {
    "nothing": (b"", 400, "empty"),
    "no object": (b"[]", 400, "must be a JSON object"),
    "no JSON": (b'{"model": ', 400, "not valid JSON"),
    "no text": (b'{"model": "\xff"}', 400, "not valid JSON"),
    "nothing in it": (b"{}", 400, "max_tokens: Field required"),
    "a role of another API": (_asked(messages=[{"role": "tool", "content": "x"}]), 400, "messages.0.role"),
    "blocks in blocks in blocks": (_asked()[:-1] + b',"messages":' + b"[" * 90_000, 400, "not valid JSON"),
    "results in results": (
        b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[' + _NEST * 100 + b"]}" * 100 + b"]}]}",
        400,
        "messages.0.content.0.content.0.type: `tool_result` cannot be translated",
    ),
    "a tool of Anthropic's": (_asked(tools=[{"type": "web_search_20250305", "name": "w"}]), 400, "tools.0"),
    "ten thousand tools": (_asked(tools=[TOOL] * 10_000), 200, ""),
    "a picture of 20 MB": (_asked(messages=[{"role": "user", "content": [_IMAGE]}]), 200, ""),
    "more than may be sent": (b" " * (65 << 20), 413, "larger than"),
    "another model": (_asked(model="claude-sonnet-4-5"), 404, "claude-sonnet-4-5"),
}


async def test_bad_input_gets_an_error_of_anthropics_with_a_sentence_that_helps(tmp_path: Path) -> None:
    kinds = {400: "invalid_request_error", 404: "not_found_error", 413: "request_too_large"}
    async with served(tmp_path, ScriptedServer("vllm")) as (_, through):
        for name, (body, status, says) in BAD.items():
            response = await through.agent.post("/v1/messages", content=body)
            assert response.status_code == status, (name, response.text[:300])
            if status != 200:
                told = response.json()
                assert (told["type"], told["error"]["type"]) == ("error", kinds[status]), name
                assert says in told["error"]["message"], name


ASKED_FOR_NOTHING: dict[str, Any] = {"max_tokens": 5, "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/messages", {"model": "scripted"}, 400),
        ("POST", "/v1/messages", {**ASKED_FOR_NOTHING, "model": "another"}, 404),
        ("POST", "/v1/messages/count_tokens", {"model": "scripted"}, 400),
        ("GET", "/v1/messages", None, 405),
        ("GET", "/v1/messages/count_tokens", None, 405),
    ],
)
async def test_an_error_tells_its_request_id_in_its_body_as_in_its_header(
    tmp_path: Path, method: str, path: str, body: dict[str, Any] | None, status: int
) -> None:
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend) as served:
        for headers in ({}, {"x-request-id": "mine"}):
            answer = await served.agent.request(method, path, json=body, headers=headers)
            assert answer.status_code == status
            assert answer.json()["request_id"] == answer.headers["x-request-id"]
            assert headers.get("x-request-id") in (None, answer.headers["x-request-id"])
