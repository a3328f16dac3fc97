"""Streams that are no proper streams (docs/promises.md D12): no crash, bounded memory, a verdict with its reason."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from starlette.types import Receive, Scope, Send

from adapters.scripts.replies import fixed
from adapters.scripts.speech import say
from adapters.sse import MAX_EVENT
from gateway.asgi import disconnected
from gateway.scripted import Fault, ScriptedServer, listening
from tests.gateway.harness import events, gateway
from tests.gateway.twisted import Pair, garbled, twistable

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEECH = say("Grüße ☂ 👋 from a small model.")
UMBRELLA = "☂".encode()

Garble = Callable[[bytes], bytes]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    """One gateway for the whole table."""
    async with twistable(tmp_path_factory.mktemp("streams"), fixed(SPEECH)) as opened:
        yield opened


def _chunks(body: bytes) -> list[bytes]:
    return body.split(b"\n\n")[:-1]


def _stream(chunks: list[bytes]) -> bytes:
    return b"".join(chunk + b"\n\n" for chunk in chunks)


def _inserted(event: bytes) -> Garble:
    """One event more, after the fifth."""
    return lambda body: _stream([*_chunks(body)[:5], event, *_chunks(body)[5:]])


def _with_chunk(change: Garble) -> Garble:
    """The sixth event in another form."""
    return lambda body: _stream([*_chunks(body)[:5], change(_chunks(body)[5]), *_chunks(body)[6:]])


def _before(mark: bytes, more: int = 0) -> Garble:
    """Cut at the mark, or so many bytes into it."""
    return lambda body: body[: body.index(mark) + more]


def _instead(body: bytes) -> Garble:
    return lambda _: body


SOUND: dict[str, Garble] = {
    "lines that end in CR": lambda body: body.replace(b"\n", b"\r"),
    "lines that end in CRLF": lambda body: body.replace(b"\n", b"\r\n"),
    "a byte order mark": lambda body: b"\xef\xbb\xbf" + body,
    "no last blank line": lambda body: body.removesuffix(b"\n"),
    "no last line end": lambda body: body.removesuffix(b"\n\n"),
    "no [DONE]": lambda body: body.removesuffix(b"data: [DONE]\n\n"),
    "two [DONE]": lambda body: body + b"data: [DONE]\n\n",
    "[DONE] between blanks": lambda body: body.replace(b"[DONE]", b" [DONE] "),
    "no blank after the colon": lambda body: body.replace(b"data: ", b"data:"),
    "data in two lines": lambda body: body.replace(b',"choices"', b'\ndata: ,"choices"'),
    "comments, ids and retries": lambda body: body.replace(b"data: {", b": hm\nid: 7\nretry: 9\ndata: {"),
    "a comment of ten megabytes": _inserted(b": " + b"x" * 10_000_000),
    "a chunk of ten megabytes": _with_chunk(lambda chunk: chunk.replace(b"data: {", b"data: {" + b" " * 10_000_000)),
}

# How it was garbled; the trace's status and fidelity; words of the reason.
BROKEN: dict[str, tuple[Garble, str, str, str]] = {
    "a chunk that is not JSON": (_inserted(b"data: {nonsense"), "ok", "partial", "a chunk cannot be read"),
    "a chunk that is cut": (_with_chunk(lambda chunk: chunk[:-9]), "ok", "partial", "a chunk cannot be read"),
    "a chunk that is a list": (_inserted(b"data: [1, 2]"), "ok", "partial", "a chunk cannot be read"),
    "a chunk that is null": (_inserted(b"data: null"), "ok", "partial", "a chunk cannot be read"),
    "a NUL in a chunk": (_with_chunk(lambda chunk: chunk[:-1] + b"\0}"), "ok", "partial", "a chunk cannot be read"),
    "two chunks on a line": (_with_chunk(lambda chunk: chunk + chunk[6:]), "ok", "partial", "a chunk cannot be read"),
    "a chunk that is empty": (_inserted(b"data:"), "ok", "partial", "a chunk cannot be read"),
    "choices that are none": (_inserted(b'data: {"choices": 7}'), "ok", "partial", "choices is not a list"),
    "data after [DONE]": (lambda body: body + b'data: {"choices": []}\n\n', "ok", "partial", "data after the end"),
    "an end inside a character": (_before(UMBRELLA, 1), "backend_error", "partial", "inside an event"),
    "an end inside an event": (_before(UMBRELLA, -9), "backend_error", "partial", "inside an event"),
    "an end between two events": (lambda body: _stream(_chunks(body)[:6]), "backend_error", "partial", "no count"),
    "an error in a chunk": (_inserted(b'data: {"error": {"message": "boom"}}'), "backend_error", "partial", "boom"),
    "an error by its name": (_inserted(b"event: error\n: boom"), "backend_error", "partial", "boom"),
    "nothing": (_instead(b""), "backend_error", "none", "no choice"),
    "comments alone": (_instead(b": hm\n\n: hm\n\n"), "backend_error", "none", "no choice"),
    "[DONE] alone": (_instead(b"data: [DONE]\n\n"), "backend_error", "none", "no choice"),
    "a page of HTML": (_instead(b"<html>\n<body>Bad gateway</body>\n</html>\n"), "backend_error", "none", "no choice"),
    "bytes that are nothing": (_instead(bytes(range(256)) * 40), "backend_error", "none", "no choice"),
}


async def streamed(pair: Pair, garble: Garble, fault: Fault | None = None) -> tuple[httpx.Response, dict[str, Any]]:
    """What the agent got of a stream that was garbled, and its trace. Whatever came, the agent can read it."""
    pair.server.script = garbled(pair.honest, garble)
    if fault is not None:
        pair.server.faults.append(fault)
    response, body = await pair.gateway.stream()
    if response.status_code == 200:
        *told, last = events(body)
        assert all(isinstance(json.loads(data), dict) for data in told)
        assert last == b"[DONE]" or json.loads(last)["error"]["message"]
    else:
        assert response.json()["error"]["message"]
    return response, await pair.gateway.trace(response)


def _text(response: httpx.Response) -> str:
    return "".join(
        choice["delta"].get("content") or ""
        for data in events(response.content)[:-1]
        for choice in json.loads(data)["choices"]
    )


@pytest.mark.parametrize("form", SOUND)
async def test_a_stream_in_an_odd_form_is_read_whole(pair: Pair, form: str) -> None:
    response, trace = await streamed(pair, SOUND[form])
    assert (trace["status"], trace["fidelity"], trace["logprobs_fidelity"]) == ("ok", "exact", "exact")
    assert trace["choices"][0]["token_ids"] == list(SPEECH.ids)
    assert (_text(response), events(response.content).count(b"[DONE]")) == (SPEECH.text("content"), 1)


@pytest.mark.parametrize("size", [1, 7, 1021])
async def test_a_stream_is_the_same_in_whatever_pieces_it_comes(pair: Pair, size: int) -> None:
    """Characters, lines and events are cut in the middle."""
    response, trace = await streamed(pair, lambda body: body, Fault(piece=size))
    assert (trace["fidelity"], trace["choices"][0]["token_ids"]) == ("exact", list(SPEECH.ids))
    assert _text(response) == SPEECH.text("content")


@pytest.mark.parametrize("form", BROKEN)
async def test_what_cannot_be_read_has_its_reason_in_the_trace(pair: Pair, form: str) -> None:
    garble, status, fidelity, words = BROKEN[form]
    response, trace = await streamed(pair, garble)
    assert (trace["status"], trace["fidelity"]) == (status, fidelity)
    assert re.search(words, trace["fidelity_reason"])
    ids = [token_id for choice in trace["choices"] for token_id in choice["token_ids"] or ()]
    assert set(ids) <= set(SPEECH.ids)
    if response.status_code == 200:
        assert (events(response.content)[-1] == b"[DONE]") == (status == "ok")


class Flood:
    """A server that answers calls with the same bytes for ever, and counts how many of them it was relieved of."""

    def __init__(self, server: ScriptedServer, data: bytes) -> None:
        self._server = server
        self._data = data
        self.sent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self._server(scope, receive, send)
            return
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.ensure_future(disconnected(receive))
        while not gone.done():
            await send({"type": "http.response.body", "body": self._data, "more_body": True})
            self.sent += len(self._data)
            await asyncio.sleep(0)


@pytest.mark.parametrize("begin", [b"", b"data: ", b": "])
async def test_a_line_without_end_is_not_taken_in_for_ever(tmp_path: Path, begin: bytes) -> None:
    flood = Flood(ScriptedServer("vllm"), b"x" * 1_000_000)
    async with listening(flood) as backend, gateway(tmp_path, backend) as served:
        response = await served.chat(stream=True)
        trace = await served.trace(response)
    assert (trace["status"], trace["fidelity"]) == ("backend_error", "none")
    assert f"larger than {MAX_EVENT} bytes" in trace["fidelity_reason"]
    # What was on the way when the connection was closed comes on top.
    assert flood.sent < MAX_EVENT + 16_000_000


async def test_a_stream_without_end_is_cut_at_the_limit_of_an_answer(tmp_path: Path) -> None:
    chunk = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"ha"},"token_ids":[7]}]}\n\n'
    flood = Flood(ScriptedServer("vllm"), chunk * 1000)
    async with listening(flood) as backend, gateway(tmp_path, backend, max_answer_bytes=1_000_000) as served:
        response = await served.chat(stream=True)
        trace = await served.trace(response)
    assert "larger than 1000000 bytes" in json.loads(events(response.content)[-1])["error"]["message"]
    assert (trace["status"], trace["fidelity"]) == ("backend_error", "partial")
    sampled = trace["choices"][0]["token_ids"]
    assert set(sampled) == {7}
    assert len(sampled) <= 1_000_000 // len(chunk)
