"""The one door to backends: the transport, its failures sorted by what the backend can have seen.

`httpx.AsyncClient`, and httpx's objects of a request and a response, would cost more than the call itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from functools import lru_cache
from types import TracebackType
from typing import Self

import httpx

from gateway.transport import HttpTransport
from gateway.transport.answer import Answer
from gateway.transport.pool import Pool
from gateway.transport.question import question
from gateway.transport.target import Target, target_of

_HEADERS = [(b"user-agent", b"rollout-gateway"), (b"accept-encoding", b"identity")]
# What says that no connection came about, and so that the backend has seen nothing.
_NOTHING_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.LocalProtocolError)
_KEPT_URLS = 1024


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
    """The connection ended inside the answer, or what came on it is none."""

    kind = "cut_short"


class TimedOut(UpstreamError):
    """The backend was silent for longer than a time limit."""

    kind = "timeout"


class AnswerTooLarge(UpstreamError):
    """The backend's answer is over the limit."""

    kind = "too_large"


class Compressed(UpstreamError):
    """The backend compressed its answer, though it was asked not to: some kilobytes may be gigabytes."""

    kind = "compressed"


class UpstreamAnswer:
    """Status and headers of an answer whose body is still to come."""

    __slots__ = ("_answer", "_backend", "_coding", "content_type", "status")

    def __init__(self, backend: str, answer: Answer) -> None:
        self._backend = backend
        self._answer = answer
        self.status = answer.status
        # From the raw list: a look-up by name decodes and folds every header first.
        content_type = coding = b""
        for name, value in answer.headers:
            name = name.lower()
            if name == b"content-type" and not content_type:
                content_type = value
            elif name == b"content-encoding":
                coding = value
        self.content_type = content_type.partition(b";")[0].strip().lower().decode("latin-1")
        self._coding = coding if coding.lower() != b"identity" else b""

    @property
    def headers(self) -> Mapping[str, str]:
        """Without those that `Connection` names, which are meant for this hop alone (RFC 9110, 7.6.1)."""
        headers = httpx.Headers(self._answer.headers)
        for named in headers.get("connection", "").split(","):
            headers.pop(named.strip(), None)
        return headers

    @property
    def is_event_stream(self) -> bool:
        return self.content_type == "text/event-stream"

    async def chunks(self, limit: int) -> AsyncIterator[bytes]:
        """The body as it arrives, up to a number of bytes. Raises CutShort, AnswerTooLarge or Compressed."""
        if self._coding:
            coding = self._coding.decode("latin-1")
            raise Compressed(self._backend, f"the backend compressed its answer ({coding}), though asked for identity")
        size = 0
        try:
            async for chunk in self._answer:
                size += len(chunk)
                if size > limit:
                    raise AnswerTooLarge(self._backend, f"the backend's answer is larger than {limit} bytes")
                yield chunk
        except (httpx.TransportError, OSError) as exc:
            raise CutShort(self._backend, f"the backend's answer broke off: {_words(exc)}") from exc

    async def body(self, limit: int) -> bytes:
        """The whole body. Raises as `chunks`."""
        return b"".join([chunk async for chunk in self.chunks(limit)])

    async def close(self) -> None:
        """Give the connection back, or cut it when the body was not read to its end."""
        await self._answer.aclose()


class Upstream:
    """Connections to every backend: pooled, unlimited in number, no proxies, no redirects, no compression."""

    def __init__(self, *, connect_timeout: float) -> None:
        """In seconds."""
        self._connect_timeout = connect_timeout
        self._transport: HttpTransport | None = None
        self._target = lru_cache(maxsize=_KEPT_URLS)(_target)

    async def __aenter__(self) -> Self:
        self._transport = HttpTransport()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    @property
    def pool(self) -> Pool | None:
        """Its connections, while it is open."""
        return self._transport.pool if self._transport is not None else None

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

        Raises NothingSent, NoAnswer or CutShort. Time limits on the answer are the caller's.
        """
        assert self._transport is not None, "Upstream is used inside `async with`"
        try:
            target = self._target(url)
            encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
            asked = question(method, target, [*_HEADERS, *encoded], body)
            answer = await self._transport.ask(target.origin, asked, connect_timeout=self._connect_timeout)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as exc:
            raise NothingSent(backend, f"not a URL that can be called: {url}") from exc
        except _NOTHING_SENT as exc:
            raise NothingSent(backend, f"no connection to the backend: {_words(exc)}") from exc
        except httpx.RemoteProtocolError as exc:
            raise CutShort(backend, f"the backend's answer can't be read: {_words(exc)}") from exc
        except (httpx.TransportError, OSError) as exc:
            why = f"the backend closed the connection without an answer: {_words(exc)}"
            raise NoAnswer(backend, why) from exc
        return UpstreamAnswer(backend, answer)


def _target(url: str) -> Target:
    return target_of(httpx.URL(url))


def _words(exc: BaseException) -> str:
    return str(exc) or type(exc).__name__
