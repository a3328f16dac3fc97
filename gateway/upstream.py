"""The one door to backends: an httpx transport called directly, its failures sorted by what the backend can have seen.

`httpx.AsyncClient`'s own layer costs more than the call itself, and `httpx-aiohttp` reports refused, reset and
disconnected alike as `ConnectTimeout`; so the transport is called here and nowhere else, and told apart by cause.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Self

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

_USER_AGENT = "rollout-gateway"


class UpstreamError(Exception):
    """A backend could not be asked, or did not answer to the end. `backend` is its name."""

    kind = "unreachable"

    def __init__(self, backend: str, why: str) -> None:
        super().__init__(why)
        self.backend = backend
        self.why = why


class NothingSent(UpstreamError):
    """No connection: the backend has seen nothing of the call."""

    kind = "refused"


class NoAnswer(UpstreamError):
    """The request was sent, or part of it, and the connection ended before a byte came back."""

    kind = "no_answer"


class CutShort(UpstreamError):
    """The connection ended inside the answer."""

    kind = "cut_short"


class TimedOut(UpstreamError):
    """The backend was silent for longer than a time limit."""

    kind = "timeout"


class AnswerTooLarge(UpstreamError):
    """The backend's whole answer is over the limit."""

    kind = "too_large"


class UpstreamAnswer:
    """Status and headers of an answer whose body is still to come."""

    __slots__ = ("_backend", "_response", "content_type", "headers", "status")

    def __init__(self, backend: str, response: httpx.Response) -> None:
        self._backend = backend
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises CutShort."""
        stream = self._response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        try:
            async for chunk in stream:
                yield chunk
        except (httpx.TransportError, aiohttp.ClientError, OSError) as exc:
            raise CutShort(self._backend, f"the backend's answer broke off: {_words(exc)}") from exc

    async def body(self, limit: int) -> bytes:
        """The whole body. Raises CutShort or AnswerTooLarge."""
        parts: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > limit:
                raise AnswerTooLarge(self._backend, f"the backend's answer is larger than {limit} bytes")
            parts.append(chunk)
        return b"".join(parts)

    async def close(self) -> None:
        """Give the connection back, or cut it when the body was not read to its end."""
        try:
            await self._response.aclose()
        except (httpx.TransportError, aiohttp.ClientError, OSError):
            return


class Upstream:
    """Connections to every backend: pooled, unlimited in number, no proxies, no redirects, no compression."""

    def __init__(self, transport: httpx.AsyncBaseTransport | None = None, *, connect_timeout: float) -> None:
        self._given = transport
        self._transport = transport
        self._connect_timeout = connect_timeout

    async def __aenter__(self) -> Self:
        if self._transport is None:
            # limit=0: httpx-aiohttp reads max_connections=None as aiohttp's 100, and 600 calls then queue.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0)
            session = aiohttp.ClientSession(connector=connector, trust_env=False, cookie_jar=aiohttp.DummyCookieJar())
            self._transport = AiohttpTransport(client=session, trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._transport is not None and self._given is None:
            await self._transport.aclose()
            self._transport = None

    async def send(
        self,
        backend: str,
        method: str,
        url: str,
        *,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
    ) -> UpstreamAnswer:
        """Send one request and return when the status line and headers are here.

        Raises NothingSent or NoAnswer. Time limits on the answer are the caller's.
        """
        assert self._transport is not None, "Upstream is used inside `async with`"
        request = httpx.Request(
            method,
            url,
            headers=[("user-agent", _USER_AGENT), ("accept-encoding", "identity"), *headers],
            content=body or None,
            extensions={"timeout": {"connect": self._connect_timeout}},
        )
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.UnsupportedProtocol as exc:
            raise NothingSent(backend, f"not a URL that can be called: {url}") from exc
        except (httpx.TransportError, aiohttp.ClientError, OSError) as exc:
            raise _sorted(backend, exc) from exc
        return UpstreamAnswer(backend, response)


def _sorted(backend: str, exc: BaseException) -> UpstreamError:
    """Which of our errors a transport's failure before the first byte is."""
    cause = exc.__cause__ if isinstance(exc, httpx.TransportError) and exc.__cause__ is not None else exc
    connecting = (
        aiohttp.ClientConnectorError,
        aiohttp.ConnectionTimeoutError,
        httpx.ConnectError,
        httpx.PoolTimeout,
    )
    if isinstance(cause, connecting) or (cause is exc and isinstance(exc, httpx.ConnectTimeout)):
        return NothingSent(backend, f"no connection to the backend: {_words(cause)}")
    return NoAnswer(backend, f"the backend closed the connection without an answer: {_words(cause)}")


def _words(exc: BaseException) -> str:
    return str(exc) or type(exc).__name__
