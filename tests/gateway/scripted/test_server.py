"""Scripted servers over real sockets: what they got, what they told, and what goes wrong on command."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import openai
import pytest

from adapters.scripts import SCRIPTS
from adapters.scripts.replies import by_turn, fixed, of_length
from adapters.scripts.speech import Called, say
from gateway.scripted import Fault, ReplayServer, ScriptedServer, free_port, running

HELLO = [{"role": "user", "content": "Hi"}]


async def post(url: str, **fields: Any) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        body = {"model": "scripted", "messages": HELLO} | fields
        return await client.post(f"{url}/v1/chat/completions", json=body)


async def drain(response: httpx.Response, into: bytearray) -> None:
    async for part in response.aiter_raw():
        into += part


@pytest.mark.parametrize("engine", SCRIPTS)
async def test_the_openai_sdk_gets_the_same_answer_streamed_and_whole(engine: str) -> None:
    server = ScriptedServer(engine, reply=fixed(say("Voilà 🙂", calls=[Called("get_weather", '{"city": "Paris"}')])))
    async with running(server) as url, openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any") as client:
        tools: Any = [{"type": "function", "function": {"name": "get_weather"}}]
        whole = await client.chat.completions.create(model="scripted", messages=HELLO, tools=tools)  # type: ignore[call-overload]
        async with client.chat.completions.stream(model="scripted", messages=HELLO, tools=tools) as stream:  # type: ignore[arg-type]
            streamed = await stream.get_final_completion()
    for answer in (whole, streamed):
        message = answer.choices[0].message
        assert message.content == "Voilà 🙂"
        assert message.tool_calls[0].function.name == "get_weather"
        assert message.tool_calls[0].function.arguments == '{"city": "Paris"}'
        assert answer.choices[0].finish_reason == "tool_calls"


async def test_every_request_is_kept_byte_for_byte() -> None:
    server = ScriptedServer("vllm")
    async with running(server) as url, httpx.AsyncClient(trust_env=False) as client:
        await client.post(f"{url}/v1/../v1%2Fchat?x=1", content=b'{"a": 1.50}', headers={"X-Mine": "yes"})
        await client.get(f"{url}/version")
    first, second = server.requests
    assert (first.method, first.body, first.header("x-mine")) == ("POST", b'{"a": 1.50}', "yes")
    assert first.path.endswith("v1%2Fchat?x=1")
    assert (second.method, second.path) == ("GET", "/version")
    assert server.calls == []


async def test_the_ledger_has_every_token_that_was_told() -> None:
    server = ScriptedServer("vllm", reply=of_length(40))
    async with running(server) as url:
        await post(url, stream=True, return_token_ids=True)
        await post(url)
    told, silent = server.calls
    assert told.told_of(0) == list(told.speeches[0].ids)
    assert silent.told == []
    assert len(silent.speeches[0].ids) == 40


async def test_the_reply_may_depend_on_the_turn() -> None:
    server = ScriptedServer("vllm", reply=by_turn(say("one"), say("two")))
    later = [*HELLO, {"role": "assistant", "content": "one"}, *HELLO]
    async with running(server) as url:
        answers = [(await post(url, messages=messages)).json() for messages in (HELLO, later)]
    assert [answer["choices"][0]["message"]["content"] for answer in answers] == ["one", "two"]


async def test_a_key_is_asked_for_where_one_is_set() -> None:
    server = ScriptedServer("vllm", api_key="secret")
    async with running(server) as url, httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"{url}/v1/models")).status_code == 401
        allowed = await client.get(f"{url}/v1/models", headers={"authorization": "Bearer secret"})
        assert allowed.status_code == 200


async def test_a_stream_can_break_after_so_many_frames() -> None:
    server = ScriptedServer("vllm", reply=of_length(10), fault=Fault(after_frames=4))
    async with running(server) as url:
        with pytest.raises(httpx.RemoteProtocolError):
            await post(url, stream=True, return_token_ids=True)
    (call,) = server.calls
    # The first frame is the role's.
    assert call.told_of(0) == list(call.speeches[0].ids[:3])


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_can_break_after_so_many_bytes(stream: bool) -> None:
    server = ScriptedServer("vllm", fault=Fault(after_bytes=100))
    got = bytearray()
    async with running(server) as url, httpx.AsyncClient(trust_env=False) as client:
        body = {"model": "scripted", "messages": HELLO, "stream": stream}
        async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
            with pytest.raises(httpx.RemoteProtocolError):
                await drain(response, got)
    assert len(got) == 100
    assert server.calls[0].told == []


@pytest.mark.parametrize(("ending", "error"), [("closed", httpx.RemoteProtocolError), ("reset", httpx.ReadError)])
async def test_a_connection_can_end_before_any_byte(ending: Any, error: type[Exception]) -> None:
    server = ScriptedServer("vllm", fault=Fault(silent=True, ending=ending))
    async with running(server) as url:
        with pytest.raises(error):
            await post(url)
    assert len(server.calls) == 1


async def test_a_stream_can_end_early_and_cleanly() -> None:
    server = ScriptedServer("vllm", fault=Fault(after_frames=2, ending="clean"))
    async with running(server) as url:
        answer = await post(url, stream=True)
    assert answer.text.count("data: ") == 2


async def test_a_server_can_hang_before_and_within_an_answer_and_sees_its_caller_go() -> None:
    server = ScriptedServer("vllm")
    server.faults += [Fault(silent=True, ending="hung"), Fault(after_frames=2, ending="hung")]
    async with running(server) as url:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(post(url, stream=True), 0.1)
        await server.settled()
    assert all(call.gone is not None and call.finished is None for call in server.calls)


async def test_a_delay_comes_before_the_headers_and_a_pause_between_frames() -> None:
    server = ScriptedServer("vllm", reply=of_length(3), fault=Fault(delay=0.05, pause=0.02))
    async with running(server) as url:
        started = time.monotonic()
        await post(url, stream=True)
        assert time.monotonic() - started >= 0.05 + 3 * 0.02
    assert server.calls[0].finished is not None


async def test_a_fault_can_answer_in_the_scripts_place() -> None:
    server = ScriptedServer("vllm")
    server.faults += [
        Fault(status=503, body=b'{"error": "busy"}', headers={"Retry-After": "7"}),
        Fault(body=b"<html>", content_type="text/html"),
        Fault(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
    ]
    async with running(server) as url:
        busy, page, raw, healthy = [await post(url) for _ in range(4)]
    assert (busy.status_code, busy.content, busy.headers["retry-after"]) == (503, b'{"error": "busy"}', "7")
    assert (page.status_code, page.content, page.headers["content-type"]) == (200, b"<html>", "text/html")
    assert raw.text == "hi"
    assert healthy.json()["object"] == "chat.completion"


async def test_bytes_can_be_put_between_frames_and_frames_cut_into_pieces() -> None:
    server = ScriptedServer(
        "vllm", reply=of_length(2), fault=Fault(insert={0: b": waiting\n\n", 1: b"data: {\n\n"}, piece=3)
    )
    async with running(server) as url:
        answer = await post(url, stream=True)
    lines = [line for line in answer.text.split("\n") if line]
    assert lines[0] == ": waiting"
    assert lines[2] == "data: {"
    assert lines[-1] == "data: [DONE]"


async def test_where_nobody_listens_a_connection_is_refused() -> None:
    with pytest.raises(httpx.ConnectError):
        await post(f"http://127.0.0.1:{free_port()}")


async def test_a_recorded_response_is_replayed_verbatim() -> None:
    recorded = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    server = ReplayServer(recorded, piece=1)
    async with server.running() as url:
        answers = [await post(url, n=n) for n in (1, 2)]
    assert [answer.text for answer in answers] == ["abc", "abc"]
    assert [path for path, _ in server.requests] == ["/v1/chat/completions"] * 2
    assert b'"n":2' in server.requests[1][1]
