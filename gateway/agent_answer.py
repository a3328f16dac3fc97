"""The agent's side of one answer: status first, keep-alives while nothing comes, one end.

Nothing goes out before the backend's status is known or one keep-alive interval has passed, so that a refused call
keeps its 4xx. After that a failure can only be an event inside the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from starlette.types import Send

from gateway.asgi import encode_headers, send_whole

_KEEP_ALIVE = b": keep-alive\n\n"
_STREAM_HEADERS = [
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    # nginx would hold chunks back to fill a buffer.
    ("x-accel-buffering", "no"),
]


class AgentAnswer:
    """Writes one answer. `headers` go on it whatever it becomes."""

    __slots__ = (
        "_beat",
        "_interval",
        "_last_write",
        "_loop",
        "_send",
        "_timer",
        "ended",
        "headers",
        "started",
    )

    def __init__(self, send: Send, headers: list[tuple[str, str]], *, keepalive_interval: float) -> None:
        self._send = send
        self.headers = headers
        self._interval = keepalive_interval
        self._loop = asyncio.get_running_loop()
        self._last_write = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._beat: asyncio.Task[None] | None = None
        self.started = False
        self.ended = False

    def keep_alive(self) -> None:
        """From now on a comment goes out whenever nothing else has for one interval. For streams alone."""
        self._timer = self._loop.call_at(self._last_write + self._interval, self._tick)

    def _tick(self) -> None:
        if self.ended:
            return
        if self._loop.time() - self._last_write >= self._interval * 0.99:
            self._last_write = self._loop.time()
            self._beat = self._loop.create_task(self.write(_KEEP_ALIVE), name="keep-alive")
        self.keep_alive()

    async def write(self, data: bytes) -> None:
        """Bytes of a stream, which begins with the first of them."""
        self._last_write = self._loop.time()
        if not self.started:
            self.started = True
            raw = encode_headers([*_STREAM_HEADERS, *self.headers])
            await self._send({"type": "http.response.start", "status": 200, "headers": raw})
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """The last bytes of a stream."""
        self.close()
        if not self.started:
            await self.write(data)
            data = b""
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def whole(self, status: int, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> None:
        """One JSON answer. Only where no stream has begun."""
        self.close()
        self.started = True
        await send_whole(self._send, status, body, [("content-type", "application/json"), *headers, *self.headers])

    def close(self) -> None:
        """No more keep-alives."""
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()
