"""Kept connections: used again, let go when idle, spoken on out of turn or closed by their server."""

from __future__ import annotations

import asyncio

from gateway.transport import HttpTransport
from tests.gateway.transport.wire import OK, answering, ask, body_of, call, request_from, serve, until


async def test_calls_one_after_the_other_share_a_connection(transport: HttpTransport) -> None:
    async with serve(answering(OK)) as server:
        for _ in range(20):
            assert await call(transport, server.url) == b"hello"
        assert (server.accepted, transport.pool.idle, transport.pool.in_use) == (1, 1, 0)


async def test_calls_at_once_have_a_connection_each_and_keep_them(transport: HttpTransport) -> None:
    async with serve(answering(OK)) as server:
        for _ in range(3):
            await asyncio.gather(*(call(transport, server.url) for _ in range(10)))
        assert (server.accepted, transport.pool.idle, transport.pool.in_use) == (10, 10, 0)


async def test_a_connection_is_free_once_its_answer_is_here_read_or_not(transport: HttpTransport) -> None:
    async with serve(answering(OK)) as server:
        first = await ask(transport, server.url)
        await until(lambda: transport.pool.idle == 1)
        assert await call(transport, server.url) == b"hello"
        assert await body_of(first) == b"hello"
        assert server.accepted == 1


async def test_two_servers_never_share_a_connection(transport: HttpTransport) -> None:
    async with serve(answering(OK)) as a, serve(answering(OK.replace(b"hello", b"other"))) as b:
        for _ in range(3):
            assert await call(transport, a.url) == b"hello"
            assert await call(transport, b.url) == b"other"
        assert (a.accepted, b.accepted) == (1, 1)


async def test_a_server_that_says_close_is_taken_at_its_word(transport: HttpTransport) -> None:
    async with serve(answering(OK.replace(b"OK\r\n", b"OK\r\nconnection: close\r\n"))) as server:
        for _ in range(3):
            assert await call(transport, server.url) == b"hello"
        assert (server.accepted, transport.pool.idle) == (3, 0)
        await until(lambda: server.now == 0)


async def test_a_connection_closed_while_idle_is_forgotten(transport: HttpTransport) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        writer.write(OK)
        await writer.drain()

    async with serve(once) as server:
        assert await call(transport, server.url) == b"hello"
        await until(lambda: transport.pool.idle == 0)
        assert await call(transport, server.url) == b"hello"
        assert server.accepted == 2


async def test_a_server_that_speaks_out_of_turn_is_not_asked_there_again(transport: HttpTransport) -> None:
    async def talkative(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        writer.write(OK)
        await asyncio.sleep(0.02)
        writer.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        await reader.read()

    async with serve(talkative) as server:
        assert await call(transport, server.url) == b"hello"
        await until(lambda: server.now == 0)
        assert transport.pool.idle == 0
        assert await call(transport, server.url) == b"hello"
        assert server.accepted == 2


async def test_connections_idle_for_too_long_are_closed() -> None:
    transport = HttpTransport(idle_seconds=0.1)
    async with serve(answering(OK)) as server:
        await asyncio.gather(*(call(transport, server.url) for _ in range(5)))
        assert server.now == 5
        for _ in range(10):
            await call(transport, server.url)
            await asyncio.sleep(0.02)
        await until(lambda: server.now == 1)
        await until(lambda: server.now == 0)
        assert transport.pool.idle == 0
        assert await call(transport, server.url) == b"hello"
    await transport.aclose()


async def test_closing_closes_every_socket_and_fails_what_was_under_way() -> None:
    transport = HttpTransport()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_from(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")
        await reader.read()

    async with serve(answering(OK)) as server, serve(silent) as other:
        await asyncio.gather(*(call(transport, server.url) for _ in range(5)))
        response = await ask(transport, other.url)
        await transport.aclose()
        await transport.aclose()
        assert (transport.pool.idle, transport.pool.in_use) == (0, 0)
        await until(lambda: server.now == other.now == 0)
        await response.aclose()
