"""Requests as bytes, and the answers as bytes: no client in between that would tidy up either."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.gateway.harness import CHAT, HELLO

BODY = json.dumps(HELLO).encode()


@dataclass(frozen=True, slots=True)
class Told:
    """One answer."""

    status: int
    headers: dict[str, str]
    body: bytes


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer_on(reader: asyncio.StreamReader) -> Told:
    """The next answer of a connection that may be kept."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    [told] = answers(head + await reader.readexactly(int(length)))
    return told


async def sent(url: str, *pieces: bytes, seconds: float = 10.0) -> bytes:
    """All that comes back on one connection until the server closes it."""
    async with connected(url) as (reader, writer), asyncio.timeout(seconds):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02 if len(pieces) > 1 else 0)
        return await reader.read(-1)


async def byte_by_byte(url: str, data: bytes) -> bytes:
    """The same, and the server reads the first few hundred bytes one at a time."""
    async with connected(url) as (reader, writer), asyncio.timeout(10):
        for at in range(min(len(data), 400)):
            writer.write(data[at : at + 1])
            await asyncio.sleep(0)
        writer.write(data[400:])
        return await reader.read(-1)


def kept(data: bytes) -> bytes:
    """The same request, and its connection stays open behind the answer."""
    return data.replace(b"Connection: close\r\n", b"")


def request(
    *headers: str, method: str = "POST", target: str = CHAT, version: str = "1.1", body: bytes | None = None
) -> bytes:
    """With a length unless another framing is among the headers. The connection ends behind the answer."""
    body = BODY if body is None else body
    framed = any(each.lower().startswith(("transfer-encoding", "content-length")) for each in headers)
    length = () if framed else (f"Content-Length: {len(body)}",)
    lines = [f"{method} {target} HTTP/{version}", "Host: gateway", "Connection: close", *headers, *length]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def chunked(body: bytes = BODY, *, extension: bytes = b"", trailers: bytes = b"") -> bytes:
    return b"%x%s\r\n%s\r\n0\r\n%s\r\n" % (len(body), extension, body, trailers)


def answers(data: bytes) -> list[Told]:
    """The answers one after the other; what is no whole answer behind them is an error."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(headers["content-length"])
        assert len(data) >= length, data
        found.append(Told(int(status_line.split()[1]), headers, data[:length]))
        data = data[length:]
    return found
