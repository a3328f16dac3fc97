"""deploy/nginx.conf, run by a real nginx: nothing that a gateway does for its agents is lost behind it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from gateway.commands import server
from gateway.scripted import free_port, listening
from gateway.settings import Settings
from tests.deploy.nginx import CONFIGURATION, in_front_of
from tests.gateway.harness import CHAT, HELLO, gateway, until

SESSION = f"/sessions/s1{CHAT}"
CHUNKS = 12
_UNITS = {"s": 1, "m": 1 << 20}


@dataclass
class Backend:
    """Speaks a word when it is let, and not before. Tells what it was asked, and whether somebody still listens."""

    bodies: list[bytes] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    let: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith(CHAT):
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body"})
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        self.bodies.append(body)
        speaking = asyncio.create_task(self._speak(send, stream=json.loads(body).get("stream", False)))
        leaving = asyncio.create_task(receive())
        await asyncio.wait({speaking, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not speaking.done():
            self.left.set()
        for task in (speaking, leaving):
            task.cancel()

    async def _speak(self, send: Send, *, stream: bool) -> None:
        if not stream:
            await self.let.acquire()
            whole = _answer("message", {"role": "assistant", "content": "w0"}, "stop")
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
            )
            await send({"type": "http.response.body", "body": json.dumps(whole).encode()})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for number in range(CHUNKS):
            await self.let.acquire()
            chunk = _answer("delta", {"content": f"w{number} "}, "stop" if number == CHUNKS - 1 else None)
            await send({"type": "http.response.body", "body": _event(chunk), "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


def _answer(part: str, said: dict[str, str], finish: str | None) -> dict[str, object]:
    choice = {"index": 0, part: said, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def _event(chunk: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _engine(url: str) -> str:
    return f"{url},engine=openai"


async def _sse(answer: httpx.Response) -> AsyncIterator[str]:
    """Words, and comments as they are."""
    rest = ""
    async for text in answer.aiter_text():
        rest += text
        while "\n\n" in rest:
            event, _, rest = rest.partition("\n\n")
            yield event


def _agent(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=30, trust_env=False)


async def test_each_chunk_is_with_the_agent_before_the_backend_says_the_next(tmp_path: Path) -> None:
    backend = Backend()
    async with (
        listening(backend) as url,
        gateway(tmp_path, _engine(url)) as served,
        in_front_of(tmp_path, served.url) as proxy,
        _agent(proxy) as agent,
        asyncio.timeout(20),
    ):
        backend.let.release()
        async with agent.stream("POST", SESSION, json={**HELLO, "stream": True}) as answer:
            seen = ""
            events = _sse(answer)
            # The end of an answer waits for its trace, so the last word comes with it.
            for number in range(CHUNKS - 1):
                while f"w{number} " not in seen:
                    seen += await anext(events)
                backend.let.release()
            async for event in events:
                seen += event
    assert seen.endswith("data: [DONE]")


async def test_comments_pass_and_keep_a_silent_stream_from_being_cut(tmp_path: Path) -> None:
    backend = Backend()
    async with (
        listening(backend) as url,
        gateway(tmp_path, _engine(url), keepalive_interval=0.2) as served,
        in_front_of(tmp_path, served.url, proxy_read_timeout="1s") as proxy,
        _agent(proxy) as agent,
        agent.stream("POST", SESSION, json={**HELLO, "stream": True}) as answer,
    ):
        events = _sse(answer)
        silent = [await anext(events) for _ in range(8)]
        assert all(event.startswith(":") for event in silent)
        for _ in range(CHUNKS):
            backend.let.release()
        told = [event async for event in events]
    assert told[-1] == "data: [DONE]"


async def test_a_whole_answer_that_is_silent_for_long_is_not_cut(tmp_path: Path) -> None:
    """The file's own limit is held against the gateway's below; here it is seen that it is this one that counts."""
    backend = Backend()
    async with (
        listening(backend) as url,
        gateway(tmp_path, _engine(url)) as served,
        in_front_of(tmp_path, served.url, send_timeout="1s", keepalive_timeout="1s", client_body_timeout="1s") as proxy,
        _agent(proxy) as agent,
    ):
        waiting = asyncio.create_task(agent.post(SESSION, json=HELLO))
        await asyncio.sleep(2.5)
        assert not waiting.done()
        backend.let.release()
        assert (await waiting).json()["choices"][0]["message"]["content"] == "w0"


async def test_its_limits_are_wider_than_the_gateways() -> None:
    told = CONFIGURATION.read_text(encoding="utf-8")

    def value(directive: str, where: str = told) -> int:
        found = re.search(rf"^ *{directive} (\d+)([sm]);", where, re.MULTILINE)
        assert found, directive
        return int(found[1]) * _UNITS[found[2]]

    settings = Settings()
    assert value("proxy_read_timeout") > settings.total_timeout
    assert value("client_max_body_size") > settings.max_body_bytes
    # Who sends has to be the one that closes a quiet connection, or a call meets a closed one.
    upstream = told[told.index("upstream gateways") : told.index("server {")]
    assert (
        value("keepalive_timeout", upstream)
        < server._KEEP_ALIVE
        < value("keepalive_timeout", told[told.index("server {") :])
    )


async def test_a_large_body_arrives_whole(tmp_path: Path) -> None:
    backend = Backend()
    long = "word " * 1_600_000
    async with (
        listening(backend) as url,
        gateway(tmp_path, _engine(url)) as served,
        in_front_of(tmp_path, served.url) as proxy,
        _agent(proxy) as agent,
    ):
        backend.let.release()
        asked = {**HELLO, "messages": [{"role": "user", "content": long}]}
        assert (await agent.post(SESSION, json=asked)).status_code == 200
    assert json.loads(backend.bodies[0])["messages"][0]["content"] == long


async def test_what_is_too_large_is_refused_in_a_form_that_sdks_parse(tmp_path: Path) -> None:
    large = {**HELLO, "messages": [{"role": "user", "content": "x" * 3_000_000}]}
    async with (
        gateway(tmp_path, max_body_bytes=1 << 20) as served,
        in_front_of(tmp_path, served.url) as proxy,
        _agent(proxy) as agent,
    ):
        by_the_gateway = await agent.post(SESSION, json=large)
    assert by_the_gateway.status_code == 413
    assert "error" in by_the_gateway.json()
    async with in_front_of(tmp_path, "http://127.0.0.1:9", client_max_body_size="1m") as proxy, _agent(proxy) as agent:
        by_nginx = await agent.post(SESSION, json=large)
    assert (by_nginx.status_code, by_nginx.json()["error"]["code"]) == (413, "body_too_large")


async def test_an_agent_that_leaves_has_left_the_backend_too(tmp_path: Path) -> None:
    backend = Backend()
    async with (
        listening(backend) as url,
        gateway(tmp_path, _engine(url)) as served,
        in_front_of(tmp_path, served.url) as proxy,
        _agent(proxy) as agent,
    ):
        waiting = asyncio.create_task(agent.post(SESSION, json=HELLO))
        await until(lambda: backend.bodies)
        waiting.cancel()
        async with asyncio.timeout(1):
            await backend.left.wait()
        await until(lambda: served.statuses() == [("client_disconnected", "none")])


@pytest.mark.parametrize(
    "path", ["/v1/../update_weights", "/sessions/a%2Fb/v1/models", "//v1//models", "/v1/models?a=%20b"]
)
async def test_a_path_arrives_as_it_was_sent(tmp_path: Path, path: str) -> None:
    """The gateway judges paths; one that was tidied up on the way could be another."""
    seen: list[bytes] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async with (
        await asyncio.start_server(echo, "127.0.0.1", port := free_port()),
        in_front_of(tmp_path, f"http://127.0.0.1:{port}") as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.rpartition(":")[2]))
        writer.write(f"GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode())
        await reader.read()
        writer.close()
    assert seen == [f"GET {path} HTTP/1.1\r\n".encode()]


async def _hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
    writer.close()


async def test_a_call_that_one_gateway_refuses_goes_to_the_other(tmp_path: Path) -> None:
    refuses = f"http://127.0.0.1:{free_port()}"
    async with (
        await asyncio.start_server(_answers, "127.0.0.1", port := free_port()),
        in_front_of(tmp_path, refuses, f"http://127.0.0.1:{port}") as proxy,
        _agent(proxy) as agent,
    ):
        statuses = [(await agent.post(SESSION, json=HELLO)).status_code for _ in range(8)]
    assert statuses == [200] * 8


async def test_a_call_that_was_sent_is_never_sent_again(tmp_path: Path) -> None:
    """It may have been sampled already, and recorded."""
    asked: list[str] = []

    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append("hangs up")
        await _hangs_up(reader, writer)

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append("answers")
        await _answers(reader, writer)

    async with (
        await asyncio.start_server(hangs_up, "127.0.0.1", one := free_port()),
        await asyncio.start_server(answers, "127.0.0.1", other := free_port()),
        in_front_of(tmp_path, f"http://127.0.0.1:{one}", f"http://127.0.0.1:{other}") as proxy,
        _agent(proxy) as agent,
    ):
        statuses = [(await agent.post(SESSION, json=HELLO)).status_code for _ in range(8)]
    assert len(asked) == len(statuses)
    assert statuses.count(503) == asked.count("hangs up") > 0


async def test_with_no_gateway_there_is_an_error_that_sdks_parse_and_try_again(tmp_path: Path) -> None:
    async with in_front_of(tmp_path, f"http://127.0.0.1:{free_port()}") as proxy, _agent(proxy) as agent:
        answer = await agent.post(SESSION, json=HELLO)
    assert (answer.status_code, answer.headers["x-should-retry"]) == (503, "true")
    assert answer.json()["error"]["code"] == "gateway_unreachable"
