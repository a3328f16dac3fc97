"""A server that answers every request with bytes recorded from a real one, chunk framing and all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httptools


class _Request:
    """Tells when a request is whole, and what it was."""

    def __init__(self) -> None:
        self.whole = False
        self.url = b""
        self.body = b""

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.whole = True


class ReplayServer:
    """`responses` are whole HTTP responses as they were on the socket; the last one answers all further requests."""

    def __init__(self, *responses: bytes, piece: int | None = None) -> None:
        if not responses:
            raise ValueError("nothing to replay")
        self._responses: Sequence[bytes] = responses
        self._piece = piece
        self.requests: list[tuple[str, bytes]] = []
        """`(path as on the wire, body)` of each."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = _Request()
        parser = httptools.HttpRequestParser(request)
        while not request.whole:
            data = await reader.read(65536)
            if not data:
                break
            parser.feed_data(data)
        if request.whole:
            response = self._responses[min(len(self.requests), len(self._responses) - 1)]
            self.requests.append((request.url.decode("latin-1"), request.body))
            await self._write(writer, response)
        # The recordings were made with `connection: close`.
        writer.close()

    async def _write(self, writer: asyncio.StreamWriter, response: bytes) -> None:
        size = self._piece or len(response)
        for start in range(0, len(response), size):
            writer.write(response[start : start + size])
            await writer.drain()
