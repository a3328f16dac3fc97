"""The transport against servers that misbehave, over real sockets."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from gateway.scripted import free_port
from gateway.transport import HttpTransport
from gateway.transport.errors import ClosedUnheard
from tests.gateway.transport.wire import OK, answering, ask, body_of, call, request_from, serve, until

# A key for localhost, of this file's tests alone, that ends in 2126.
CERTIFICATE = Path(__file__).parent / "localhost.pem"


async def test_a_refused_connection_is_a_connect_error(transport: HttpTransport) -> None:
    with pytest.raises(httpx.ConnectError):
        await ask(transport, f"http://127.0.0.1:{free_port()}/")


@pytest.mark.parametrize("host", ["nobody.invalid", "a" * 70 + ".invalid"])
async def test_a_name_that_does_not_resolve_is_a_connect_error(transport: HttpTransport, host: str) -> None:
    with pytest.raises(httpx.ConnectError):
        await ask(transport, f"http://{host}/", connect=30.0)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http:///x", "/x"])
async def test_a_url_that_leads_nowhere_is_unsupported(transport: HttpTransport, url: str) -> None:
    with pytest.raises(httpx.UnsupportedProtocol):
        await ask(transport, url)


async def test_connecting_has_a_time_limit(transport: HttpTransport) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        # Nobody accepts, and a queue for none is soon full: the next SYN goes unanswered.
        others = [socket.socket() for _ in range(4)]
        for other in others:
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        await asyncio.sleep(0.05)
        with pytest.raises(httpx.ConnectTimeout):
            await ask(transport, f"http://127.0.0.1:{full.getsockname()[1]}/", connect=0.1)
        for other in others:
            other.close()


async def test_localhost_is_found_under_either_family(transport: HttpTransport) -> None:
    async with serve(answering(OK)) as server:
        assert await call(transport, server.url.replace("127.0.0.1", "localhost")) == b"hello"


async def test_an_answer_that_comes_byte_by_byte_is_whole(transport: HttpTransport) -> None:
    sent = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\nx: y\r\n\r\n"

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request_from(reader)
            for at in range(len(sent)):
                writer.write(sent[at : at + 1])
                await asyncio.sleep(0)

    async with serve(slowly) as server:
        for _ in range(3):
            assert await call(transport, server.url) == b"hello world"
        assert server.accepted == 1


async def test_a_kept_connection_that_dies_unheard_is_tried_once_on_a_fresh_one(transport: HttpTransport) -> None:
    bodies: list[bytes] = []

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bodies.append((await request_from(reader))[1])
        writer.write(OK)
        bodies.append((await request_from(reader))[1])

    async with serve(once) as server:
        assert await call(transport, server.url, b"1") == b"hello"
        assert await call(transport, server.url, b"2") == b"hello"
        assert (server.accepted, bodies) == (2, [b"1", b"2", b"2"])


async def test_a_connection_used_a_moment_ago_was_not_closed_for_idleness() -> None:
    transport = HttpTransport()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        writer.write(OK)
        await request_from(reader)

    async with serve(once) as server:
        assert await call(transport, server.url) == b"hello"
        with pytest.raises(ClosedUnheard):
            await ask(transport, server.url)
        assert server.accepted == 1
    await transport.aclose()


async def test_the_second_try_is_the_last(transport: HttpTransport) -> None:
    async def once_ever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        if server.accepted == 1:
            writer.write(OK)
            await request_from(reader)

    async with serve(once_ever) as server:
        assert await call(transport, server.url) == b"hello"
        with pytest.raises(ClosedUnheard):
            await ask(transport, server.url)
        assert server.accepted == 2


async def test_a_fresh_connection_that_dies_unheard_is_not_tried_again(transport: HttpTransport) -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)

    async with serve(close) as server:
        with pytest.raises(ClosedUnheard):
            await ask(transport, server.url)
        assert server.accepted == 1


async def test_nothing_is_asked_again_after_a_byte(transport: HttpTransport) -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        writer.write(OK)
        await request_from(reader)
        writer.write(b"H")

    async with serve(half) as server:
        assert await call(transport, server.url) == b"hello"
        with pytest.raises(httpx.RemoteProtocolError):
            await ask(transport, server.url)
        assert server.accepted == 1


async def test_a_server_gone_since_has_seen_the_request(transport: HttpTransport) -> None:
    async def last(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        writer.write(OK)
        await request_from(reader)
        gone.close()

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await last(reader, writer)
        finally:
            writer.close()

    gone = await asyncio.start_server(closing, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{gone.sockets[0].getsockname()[1]}"
    assert await call(transport, url) == b"hello"
    with pytest.raises(ClosedUnheard):
        await ask(transport, url)


async def test_a_large_body_is_sent_whole_to_a_server_that_reads_slowly(transport: HttpTransport) -> None:
    body = random.Random(2).randbytes(20_000_000)
    same = False

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal same
        await asyncio.sleep(0.05)
        same = (await request_from(reader))[1] == body
        writer.write(OK)
        await writer.drain()

    async with serve(slow) as server:
        assert await call(transport, server.url, body) == b"hello"
    assert same


async def test_a_server_that_answers_before_it_has_read_all_is_heard(transport: HttpTransport) -> None:
    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too large\r\ncontent-length: 2\r\n\r\nno")
        await writer.drain()
        await reader.read(1000)

    async with serve(early) as server:
        response = await ask(transport, server.url, b"x" * 20_000_000)
        assert response.status_code == 413
        assert await body_of(response) == b"no"
        assert transport.pool.idle == 0


async def test_a_reader_that_does_not_read_slows_the_server_down(transport: HttpTransport) -> None:
    written = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await request_from(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while written < 200_000_000:
            writer.write(b"x" * 65536)
            await writer.drain()
            written += 65536

    async with serve(endless) as server:
        response = await ask(transport, server.url)
        stuck = -1
        while stuck != written:
            stuck = written
            await asyncio.sleep(0.1)
        assert written < 50_000_000  # What the kernel's buffers hold, most of it.
        assert isinstance(response.stream, httpx.AsyncByteStream)
        got = 0
        async for piece in response.stream:
            assert len(piece) < 1_000_000
            got += len(piece)
            if got > stuck + 1_000_000:
                break
        await response.aclose()
        await until(lambda: server.now == 0)


async def test_six_hundred_calls_at_once_do_not_queue(transport: HttpTransport) -> None:
    all_here = asyncio.Event()

    async def wait_for_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        if server.now == 600:
            all_here.set()
        await all_here.wait()
        writer.write(OK)
        await writer.drain()

    async with serve(wait_for_all) as server, asyncio.timeout(20):
        assert await asyncio.gather(*(call(transport, server.url) for _ in range(600))) == [b"hello"] * 600


async def test_a_thousand_calls_cancelled_anywhere_leave_nothing_open(transport: HttpTransport) -> None:
    rng = random.Random(3)
    turns = 0

    async def streaming(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal turns
        while True:
            _, body = await request_from(reader)
            turns += 1
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for _ in range(3):
                await asyncio.sleep(0)
                writer.write(b"%x\r\n%s\r\n" % (len(body), body))
            writer.write(b"0\r\n\r\n")

    async def one(number: int) -> bool:
        body = b"call %d;" % number
        calling = asyncio.create_task(call(transport, server.url, body))
        for _ in range(rng.randrange(25)):
            await asyncio.sleep(0)
        calling.cancel()
        try:
            # What is not cancelled in time has its own answer and no other's.
            assert await calling == body * 3
        except asyncio.CancelledError:
            return False
        return True

    async with serve(streaming) as server:
        whole = 0
        for first in range(0, 1000, 20):
            whole += sum(await asyncio.gather(*(one(number) for number in range(first, first + 20))))
        await until(lambda: transport.pool.in_use == 0)
        assert await call(transport, server.url, b"after") == b"after" * 3
        await until(lambda: server.now == transport.pool.idle)
        assert whole < 1000


def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@pytest.fixture
async def trusting() -> AsyncIterator[HttpTransport]:
    opened = HttpTransport(tls=ssl.create_default_context(cafile=str(CERTIFICATE)))
    yield opened
    await opened.aclose()
    assert opened.pool.in_use == opened.pool.idle == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_tls_is_spoken_and_kept(trusting: HttpTransport, host: str) -> None:
    async with serve(answering(OK), server_tls()) as server:
        url = server.url.replace("127.0.0.1", host)
        for _ in range(3):
            assert await call(trusting, url, b"x" * 300_000) == b"hello"
        assert server.accepted == 1


async def test_a_certificate_that_nobody_vouches_for_is_a_connect_error(transport: HttpTransport) -> None:
    async with serve(answering(OK), server_tls()) as server:
        with pytest.raises(httpx.ConnectError, match="certificate"):
            await ask(transport, server.url)
        assert transport.pool.in_use == 0


async def test_a_certificate_of_another_name_is_a_connect_error(trusting: HttpTransport) -> None:
    async with serve(answering(OK), server_tls(), "127.0.0.2") as server:
        with pytest.raises(httpx.ConnectError, match="certificate"):
            await ask(trusting, server.url)


async def test_a_server_without_tls_is_a_connect_error(transport: HttpTransport) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serve(plain) as server:
        with pytest.raises(httpx.ConnectError):
            await ask(transport, server.url.replace("http://", "https://"))


async def test_a_reader_that_does_not_read_slows_a_tls_server_down(trusting: HttpTransport) -> None:
    size = 30_000_000

    async def large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(size // 100_000):
            writer.write(b"x" * 100_000)
            await writer.drain()

    async with serve(large, server_tls()) as server:
        response = await ask(trusting, server.url)
        await asyncio.sleep(0.2)
        assert len(await body_of(response)) == size
