"""The agent's side of one answer: status first, keep-alives while nothing comes, one end.

Nothing goes out before the backend's status is known or one keep-alive interval has passed, so that a refused call
keeps its 4xx. After that a failure can only be an event inside the stream. A whole answer that is kept alive begins
with white space, which JSON allows, and the status is out with that: a failure then is a connection that breaks off,
for an error with status 200 would be taken for an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from starlette.types import Send

from gateway.asgi import encode_headers, send_whole

_COMMENT = b": keep-alive\n\n"
_WHITE_SPACE = b" "
_JSON_HEADERS = [("content-type", "application/json")]
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
        "_blank",
        "_interval",
        "_last_write",
        "_loop",
        "_padded",
        "_send",
        "_timer",
        "ended",
        "headers",
        "kept_alive",
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
        self._blank = _COMMENT
        self._padded = False
        """White space of a whole answer is out, with its status."""
        self.started = False
        self.ended = False
        self.kept_alive = False

    def keep_alive(self, *, whole: bool = False) -> None:
        """From now on something goes out whenever nothing else has for one interval: a comment of a stream, or white
        space before a whole answer.
        """
        self._blank = _WHITE_SPACE if whole else _COMMENT
        self._schedule()

    def _schedule(self) -> None:
        self._timer = self._loop.call_at(self._last_write + self._interval, self._tick)

    def _tick(self) -> None:
        if self.ended:
            return
        if self._loop.time() - self._last_write >= self._interval * 0.99:
            self._last_write = self._loop.time()
            self._beat = self._loop.create_task(self._keep_alive(), name="keep-alive")
        self._schedule()

    async def _keep_alive(self) -> None:
        if self.ended:
            return
        self.kept_alive = True
        if self._blank is _COMMENT:
            await self.write(_COMMENT)
            return
        padded, self._padded = self._padded, True
        if not padded:
            await self._start(_JSON_HEADERS)
        await self._send({"type": "http.response.body", "body": _WHITE_SPACE, "more_body": True})

    async def write(self, data: bytes) -> None:
        """Bytes of a stream, which begins with the first of them."""
        self._last_write = self._loop.time()
        if not self.started:
            self.started = True
            await self._start(_STREAM_HEADERS)
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _start(self, headers: list[tuple[str, str]]) -> None:
        raw = encode_headers([*headers, *self.headers])
        await self._send({"type": "http.response.start", "status": 200, "headers": raw})

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
        if not self._padded:
            await send_whole(self._send, status, body, [*_JSON_HEADERS, *headers, *self.headers])
            return
        assert self._beat is not None
        await self._beat  # Its white space may still be on its way out.
        if status == 200:
            await self._send({"type": "http.response.body", "body": body, "more_body": False})
        # Else the answer has no end, and the server closes the connection.

    def close(self) -> None:
        """No more keep-alives."""
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()
