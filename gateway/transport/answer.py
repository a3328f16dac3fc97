"""One answer: its status and headers, and its body as an async stream that slows the backend down when unread."""

from __future__ import annotations

import asyncio
from typing import Protocol, Self

import httpx

Header = tuple[bytes, bytes]

# Unread bytes above which the connection stops reading, so that a slow agent slows the backend, not fills memory.
HIGH_WATER = 256 * 1024
# What a piece costs beside its bytes: a backend that sends single bytes must not fill memory either.
_PIECE_COST = 64


class Source(Protocol):
    """The connection that an answer comes from."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def leave(self, answer: Answer) -> None: ...


class Answer(httpx.AsyncByteStream):
    """Written by its connection, read by one task. Iterate it once; close it always."""

    __slots__ = (
        "_ended",
        "_error",
        "_loop",
        "_paused",
        "_pieces",
        "_source",
        "_unread",
        "_waiter",
        "begun",
        "headers",
        "status",
    )

    def __init__(self, source: Source, loop: asyncio.AbstractEventLoop) -> None:
        self._source = source
        self._loop = loop
        self._pieces: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._ended = False
        self._error: httpx.TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.begun: asyncio.Future[None] = loop.create_future()
        """Done when status and headers are here. Raises httpx.TransportError."""
        self.status = 0
        self.headers: list[Header] = []

    # The connection's side.

    def begin(self, status: int, headers: list[Header]) -> None:
        self.status = status
        self.headers = headers
        if not self.begun.done():
            self.begun.set_result(None)

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._unread += len(piece) + _PIECE_COST

    def flush(self) -> None:
        """Once for all pieces that one read from the socket brought."""
        if self._unread > HIGH_WATER and not self._paused:
            self._paused = True
            self._source.pause()
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()

    def fail(self, error: httpx.TransportError) -> None:
        """What came before can still be read; then the error."""
        self._ended = True
        if self.begun.done():
            self._error = error
            self._wake()
        else:
            self.begun.set_exception(error)

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # The reader's side.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """All that has arrived since the last. Raises httpx.TransportError where the answer broke off."""
        while not self._pieces:
            if self._ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._waiter = self._loop.create_future()
            await self._waiter
        pieces, self._pieces, self._unread = self._pieces, [], 0
        if self._paused:
            self._paused = False
            if not self._ended:
                self._source.resume()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def aclose(self) -> None:
        """Cuts the connection where the answer is still coming. It never waits, so nothing can cancel it."""
        if not self._ended:
            self._ended = True
            self._source.leave(self)
