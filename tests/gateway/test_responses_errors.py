"""What a client of OpenAI's Responses gets when something is wrong: always OpenAI's shape, and never a clean end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from adapters.scripts.replies import of_length
from gateway.scripted import Fault, ScriptedServer
from tests.gateway.harness import traces_in
from tests.gateway.openai_client import ASKED, SERVERS, TOOL, served, streamed
from tests.gateway.test_held_bytes import locked, no_file_larger_than

PLAIN: dict[str, Any] = {**ASKED, "tools": []}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_context_overflow_has_the_code_that_agents_summarise_at(tmp_path: Path, stream: bool) -> None:
    """docs/promises.md C3."""
    said = (
        "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens."
    )
    refusal = {"error": {"message": said, "type": "BadRequestError", "param": None, "code": 400}}
    server = ScriptedServer("vllm", fault=Fault(status=400, body=json.dumps(refusal).encode()))
    async with served(tmp_path, server) as (client, _):
        with pytest.raises(openai.BadRequestError) as caught:
            await (streamed(client, **ASKED) if stream else client.responses.create(**ASKED))
    assert (caught.value.code, caught.value.type) == ("context_length_exceeded", "invalid_request_error")
    assert said in caught.value.message
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.http_status, trace.error and trace.error.message) == ("backend_error", 400, said)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)
async def test_a_backends_refusal_is_one_of_openais(
    tmp_path: Path, status: int, error: type[openai.APIStatusError]
) -> None:
    server = ScriptedServer("vllm", fault=Fault(status=status, body=b'{"error":{"message":"No.","type":"X"}}'))
    async with served(tmp_path, server) as (client, _):
        with pytest.raises(error) as caught:
            await client.responses.create(**ASKED)
    assert (caught.value.status_code, caught.value.type) == (status, "X")
    assert caught.value.request_id == caught.value.response.headers["x-request-id"]


async def _read(stream: AsyncIterator[Any], names: list[str]) -> None:
    """Into `names` the events' types, also of a stream that then raises."""
    async for event in stream:
        names.append(event.type)  # noqa: PERF401


@pytest.mark.parametrize(("engine", "version", "variant"), SERVERS)
async def test_an_error_in_mid_stream_is_raised_by_the_sdk(
    tmp_path: Path, engine: str, version: str | None, variant: str | None
) -> None:
    event = b'data: {"error":{"message":"CUDA out of memory","type":"InternalServerError","code":500}}\n\n'
    # With a pause, or it is read together with what came before it, and is a status.
    server = ScriptedServer(engine, version=version, variant=variant, reply=of_length(8))
    names: list[str] = []
    async with served(tmp_path, server, capture="stream") as (client, _):
        server.fault = Fault(insert={4: event}, after_frames=4, pause=0.01)
        stream = await client.responses.create(**PLAIN, stream=True)
        with pytest.raises(openai.APIError) as caught:
            await _read(stream, names)
    assert caught.value.message == "CUDA out of memory"
    assert names[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert not {"response.completed", "response.incomplete", "response.output_item.done"} & {*names}
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert trace.status == "backend_error"


async def test_who_reads_the_events_alone_finds_the_failure_in_two_of_them(tmp_path: Path) -> None:
    """An `error`, and a `response.failed` as Codex looks for, numbered on, with a code that it knows."""
    said = "This model's maximum context length is 9 tokens. However, your prompt contains at least 10 input tokens."
    event = b"data: " + json.dumps({"error": {"message": said, "code": 400}}).encode() + b"\n\n"
    server = ScriptedServer("vllm", reply=of_length(8), fault=Fault(insert={4: event}, after_frames=4, pause=0.01))
    async with served(tmp_path, server) as (_, through):
        response = await through.agent.post("/v1/responses", json={**PLAIN, "stream": True})
    told = [json.loads(part.partition(b"data: ")[2]) for part in response.content.split(b"\n\n") if part]
    error, failed = told[-2:]
    assert [body["sequence_number"] for body in told] == [*range(len(told))]
    assert (error["type"], error["code"], error["message"]) == ("error", "context_length_exceeded", said)
    assert (failed["type"], failed["response"]["status"]) == ("response.failed", "failed")
    assert failed["response"]["error"] == {"code": "context_length_exceeded", "message": said}
    assert failed["response"]["id"] == told[0]["response"]["id"]


async def test_no_end_of_a_response_comes_before_its_trace_is_committed(tmp_path: Path) -> None:
    """docs/promises.md B2: text is not held; the end of the item is, and all that comes with it."""
    server = ScriptedServer("vllm", reply=of_length(6))
    async with served(tmp_path, server) as (client, through):
        await client.responses.create(**PLAIN)
        with locked(through.database):
            stream = aiter(await client.responses.create(**PLAIN, stream=True))
            words = 0
            while words < 5:
                event = await anext(stream)
                words += event.type == "response.output_text.delta"
            ending = asyncio.ensure_future(anext(stream))
            await server.settled()
            assert (await asyncio.wait([ending], timeout=0.3))[0] == set()
            assert through.statuses() == [("ok", "exact")]
        rest = [await ending, *[event async for event in stream]]
        assert through.statuses() == [("ok", "exact")] * 2
    assert [event.type for event in rest][-2:] == ["response.output_item.done", "response.completed"]


@pytest.mark.parametrize("stream", [False, True])
async def test_without_a_record_there_is_no_end_of_a_response(tmp_path: Path, stream: bool) -> None:
    server = ScriptedServer("vllm", reply=of_length(6))
    with no_file_larger_than(8 << 20):  # As each of a spool's is.
        async with served(tmp_path, server, commit_timeout=0.2) as (client, through):
            await client.responses.create(**PLAIN)
            with locked(through.database), pytest.raises(openai.APIError) as caught:
                await (streamed(client, **PLAIN) if stream else client.responses.create(**PLAIN))
    assert caught.value.code == "cannot_record"


def _asked(**fields: Any) -> bytes:
    return json.dumps({**ASKED, **fields}).encode()


_IMAGE = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * (20 << 20)}
BAD = {
    "nothing": (b"", 400, "empty"),
    "no object": (b"[]", 400, "must be a JSON object"),
    "no JSON": (b'{"model": ', 400, "not valid JSON"),
    "no text": (b'{"model": "\xff"}', 400, "not valid JSON"),
    "nothing in it": (b"{}", 400, "`model` is missing"),
    "no input": (b'{"model":"m"}', 400, "`input` is missing"),
    "a role of another API": (_asked(input=[{"role": "tool", "content": "x"}]), 400, "input[0].role"),
    "an item that is none": (_asked(input=["x"]), 400, "input[0]"),
    "an item of a service's": (
        _asked(input=[{"type": "web_search_call", "id": "ws_1"}]),
        400,
        "input[0].type: `web_search_call` cannot be translated",
    ),
    "a file": (
        _asked(input=[{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]),
        400,
        "input[0].content[0].type: `input_file` cannot be translated",
    ),
    "lists in lists in lists": (_asked()[:-1] + b',"input":' + b"[" * 90_000, 400, "not valid JSON"),
    "a tool of OpenAI's": (_asked(tools=[{"type": "web_search"}]), 400, "tools[0].type: `web_search`"),
    "a run in the background": (_asked(background=True), 400, "background: this needs a service"),
    "an unknown response": (_asked(previous_response_id="resp_" + "0" * 32), 400, "Previous response with id"),
    "an unknown item": (_asked(input=[{"type": "item_reference", "id": "msg_1"}]), 400, "Item with id 'msg_1'"),
    "ten thousand tools": (_asked(tools=[{**TOOL, "name": f"t{n}"} for n in range(10_000)]), 200, ""),
    "a picture of 20 MB": (_asked(input=[{"role": "user", "content": [_IMAGE]}]), 200, ""),
    "more than may be sent": (b" " * (65 << 20), 413, "larger than"),
    "another model": (_asked(model="gpt-6"), 404, "gpt-6"),
}


async def test_bad_input_gets_an_error_of_openais_with_a_sentence_that_helps(tmp_path: Path) -> None:
    async with served(tmp_path, ScriptedServer("vllm")) as (_, through):
        for name, (body, status, says) in BAD.items():
            response = await through.agent.post("/v1/responses", content=body)
            assert response.status_code == status, (name, response.text[:300])
            if status != 200:
                told = response.json()["error"]
                assert told.keys() == {"message", "type", "param", "code"}, name
                assert says in told["message"], name


async def test_a_response_is_no_thing_to_ask_for_later(tmp_path: Path) -> None:
    """The trace is: `/api/traces/{trace_id}`."""
    async with served(tmp_path, ScriptedServer("vllm")) as (client, _):
        answer = await client.responses.create(**ASKED)
        with pytest.raises(openai.NotFoundError, match="There is nothing at"):
            await client.responses.retrieve(answer.id)
        with pytest.raises(openai.NotFoundError, match="There is nothing at"):
            await client.responses.delete(answer.id)
