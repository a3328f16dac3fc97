"""The one door to backends: what a failure says of what the backend can have seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from gateway.scripted import free_port
from gateway.upstream import AnswerTooLarge, CutShort, NoAnswer, NothingSent, Upstream

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"


@asynccontextmanager
async def backend(handler: Handler) -> AsyncIterator[str]:
    """A server that does with each connection what the handler says."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream(connect_timeout=1.0) as opened:
        yield opened


async def test_a_refused_connection_has_sent_nothing(upstream: Upstream) -> None:
    with pytest.raises(NothingSent):
        await upstream.send("a", "GET", f"http://127.0.0.1:{free_port()}/")


async def test_a_name_that_does_not_resolve_has_sent_nothing(upstream: Upstream) -> None:
    with pytest.raises(NothingSent):
        await upstream.send("a", "GET", "http://nobody.invalid/")


async def test_a_connection_closed_before_a_byte_is_no_answer(upstream: Upstream) -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async with backend(close) as url:
        with pytest.raises(NoAnswer):
            await upstream.send("a", "POST", url + "/x", body=b"{}")


async def test_a_reset_before_a_byte_is_no_answer(upstream: Upstream) -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    async with backend(reset) as url:
        with pytest.raises(NoAnswer):
            await upstream.send("a", "POST", url + "/x", body=b"{}")


async def test_what_is_not_http_cannot_be_read_and_may_have_been_an_answer(upstream: Upstream) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        await writer.drain()

    async with backend(babble) as url:
        with pytest.raises(CutShort, match="the backend's answer can't be read: not an HTTP answer"):
            await upstream.send("a", "POST", url + "/x", body=b"{}")


@pytest.mark.parametrize(
    "head", [b"content-length: 500", b"transfer-encoding: chunked"], ids=["with a length", "chunked"]
)
async def test_a_connection_closed_inside_the_answer_cuts_it_short(upstream: Upstream, head: bytes) -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n5\r\nhello\r\n")
        await writer.drain()

    async with backend(cut) as url:
        answer = await upstream.send("a", "GET", url + "/")
        with pytest.raises(CutShort):
            await answer.body(limit=10_000)
        await answer.close()


async def test_an_answer_over_the_limit_is_not_taken_in(upstream: Upstream) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 65536)
            await writer.drain()

    async with backend(endless) as url:
        answer = await upstream.send("a", "GET", url + "/")
        with pytest.raises(AnswerTooLarge):
            await answer.body(limit=1_000_000)
        await answer.close()


async def test_no_compression_is_asked_for_and_no_redirect_followed(upstream: Upstream) -> None:
    heads: list[bytes] = []

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 307 Temporary\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    async with backend(redirect) as url:
        answer = await upstream.send("a", "GET", url + "/")
        assert answer.status == 307
        await answer.close()
    assert len(heads) == 1
    assert b"accept-encoding: identity\r\n" in heads[0].lower()


async def test_a_connection_is_used_again_after_a_whole_answer(upstream: Upstream) -> None:
    connections = 0

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while not reader.at_eof():
            try:
                await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            writer.write(OK)
            await writer.drain()

    async with backend(twice) as url:
        for _ in range(3):
            answer = await upstream.send("a", "GET", url + "/")
            assert await answer.body(limit=100) == b"hello"
            await answer.close()
        await upstream.__aexit__(None, None, None)
    assert connections == 1


async def test_closing_an_unread_answer_cuts_the_backend_off(upstream: Upstream) -> None:
    gone = asyncio.Event()

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await writer.drain()
        await reader.read()
        gone.set()

    async with backend(stream) as url:
        answer = await upstream.send("a", "GET", url + "/")
        assert await anext(answer.chunks(1 << 20)) == b"hello"
        await answer.close()
        await asyncio.wait_for(gone.wait(), 20)


async def test_six_hundred_calls_at_once_do_not_queue() -> None:
    """Clients like to limit themselves to a hundred connections, and hundreds of agents then wait in turns."""
    at_once = 0
    all_here = asyncio.Event()

    async def wait_for_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal at_once
        await reader.readuntil(b"\r\n\r\n")
        at_once += 1
        if at_once == 600:
            all_here.set()
        await all_here.wait()
        writer.write(OK)
        await writer.drain()

    async def call(upstream: Upstream, url: str) -> bytes:
        answer = await upstream.send("a", "GET", url + "/")
        body = await answer.body(limit=100)
        await answer.close()
        return body

    async with Upstream(connect_timeout=30) as patient, backend(wait_for_all) as url, asyncio.timeout(60):
        bodies = await asyncio.gather(*(call(patient, url) for _ in range(600)))
    assert bodies == [b"hello"] * 600
