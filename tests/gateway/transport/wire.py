"""Raw servers on loopback that do with each connection what a test says, and calls to them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from gateway.transport import HttpTransport

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """Where it listens, and how many connections it has seen and has now."""

    url: str
    accepted: int = 0
    now: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever the last connection has gone."""


@asynccontextmanager
async def serve(handler: Handler, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[Server]:
    seen = Server("")

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.accepted += 1
        seen.now += 1
        seen.closed.clear()
        try:
            await handler(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()
            seen.now -= 1
            if seen.now == 0:
                seen.closed.set()

    listening = await asyncio.start_server(handle, host, 0, backlog=1024, ssl=tls)
    scheme = "http" if tls is None else "https"
    seen.url = f"{scheme}://{host}:{listening.sockets[0].getsockname()[1]}"
    try:
        yield seen
    finally:
        listening.close()


async def request_from(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of the next request. Raises IncompleteReadError at the connection's end."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    return head, await reader.readexactly(length)


def answering(answer: bytes) -> Handler:
    """A server that gives each request the same bytes."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request_from(reader)
            writer.write(answer)
            await writer.drain()

    return handler


async def ask(
    transport: HttpTransport, url: str, body: bytes = b"{}", *, method: str = "POST", connect: float = 2.0
) -> httpx.Response:
    extensions = {"timeout": {"connect": connect}}
    request = httpx.Request(method, url, stream=httpx.ByteStream(body), extensions=extensions)
    return await transport.handle_async_request(request)


async def body_of(response: httpx.Response) -> bytes:
    assert isinstance(response.stream, httpx.AsyncByteStream)
    parts = [part async for part in response.stream]
    await response.aclose()
    return b"".join(parts)


async def call(transport: HttpTransport, url: str, body: bytes = b"{}") -> bytes:
    return await body_of(await ask(transport, url, body))


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.001)
