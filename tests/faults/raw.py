"""Bytes on a connection as nobody's client writes them, and what comes back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


_QUIET = 0.5


async def statuses(port: int, *pieces: bytes, waits: float = 10.0) -> list[int]:
    """Writes the pieces one after the other; the status of each answer that comes until nothing more does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    told = b""
    try:
        with suppress(OSError, TimeoutError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        with suppress(OSError, TimeoutError):
            while data := await asyncio.wait_for(reader.read(1 << 16), _QUIET if told else waits):
                told += data
    finally:
        writer.transport.abort()
    return [int(status) for status in _STATUS.findall(told)]


def post(path: str, body: bytes, *headers: bytes, length: Sequence[bytes] | None = None) -> bytes:
    """A request with these lines of headers; its length is told as it is, or as `length` has it."""
    told = [b"content-length: %d" % len(body)] if length is None else list(length)
    lines = [b"POST " + path.encode() + b" HTTP/1.1", b"host: gateway", b"content-type: application/json"]
    return b"\r\n".join([*lines, *told, *headers, b"", body])
