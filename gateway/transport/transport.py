"""The gateway's own httpx transport: HTTP/1.1, kept connections, no redirects, no proxies, no cookies, no inflating."""

from __future__ import annotations

import asyncio
import ssl

import httpx

from gateway.transport.answer import Answer
from gateway.transport.connection import Connection
from gateway.transport.dialer import Dialer
from gateway.transport.errors import ClosedUnheard
from gateway.transport.pool import Pool
from gateway.transport.question import Question, question_of
from gateway.transport.target import Origin, target_of

_IDLE_SECONDS = 30.0
# No server closes a connection for having been idle for less (uvicorn waits 5 s, gunicorn 2 s). What dies sooner died
# of the request or of the server, and that is for the caller to know.
_STALE_SECONDS = 1.0


class HttpTransport(httpx.AsyncBaseTransport):
    """Of httpx's time limits it knows `connect`; those on the answer are its caller's, by cancelling."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        idle_seconds: float = _IDLE_SECONDS,
        stale_seconds: float = _STALE_SECONDS,
    ) -> None:
        self._stale_seconds = stale_seconds
        self.pool = Pool(idle_seconds=idle_seconds)
        self._dialer = Dialer(tls)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """httpx's own face of `ask`, for whoever has a request of its making. Raises httpx.UnsupportedProtocol too."""
        origin = target_of(request.url).origin
        seconds = request.extensions.get("timeout", {}).get("connect")
        answer = await self.ask(origin, await question_of(request), connect_timeout=seconds)
        return httpx.Response(answer.status, headers=answer.headers, stream=answer, request=request)

    async def aclose(self) -> None:
        self._dialer.close()
        await self.pool.close()

    async def ask(self, origin: Origin, question: Question, *, connect_timeout: float | None) -> Answer:
        """Returns at the end of the headers; the caller closes the answer.

        Raises httpx.ConnectError or ConnectTimeout where nothing was sent; httpx.ReadError or RemoteProtocolError where
        the request was, and no answer came back.
        """
        kept = self.pool.take(origin)
        if kept is None:
            return await _exchange(await self._connect(origin, connect_timeout), question)
        stale = asyncio.get_running_loop().time() - kept.idle_since >= self._stale_seconds
        try:
            return await _exchange(kept, question)
        except ClosedUnheard as exc:
            if not stale:
                raise
            unheard = exc
        # Closed by the server for idleness while our request was on its way (RFC 9112 §9.3.1): once more, on a new one.
        try:
            fresh = await self._connect(origin, connect_timeout)
        except httpx.TransportError as exc:
            # «Nothing was sent» would no longer be true.
            raise unheard from exc
        return await _exchange(fresh, question)

    async def _connect(self, origin: Origin, seconds: float | None) -> Connection:
        connection = await self._dialer.dial(origin, lambda: Connection(origin, self.pool), seconds)
        self.pool.opened(connection)
        return connection


async def _exchange(connection: Connection, question: Question) -> Answer:
    answer = connection.ask(question)
    try:
        await answer.begun
    except BaseException:
        # Failed, and then it is cut already; or cancelled.
        await answer.aclose()
        raise
    return answer
