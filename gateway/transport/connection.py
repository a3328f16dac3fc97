"""One connection to a backend: one request at a time out, its answer parsed by httptools as it arrives."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

import httptools
import httpx

from gateway.transport.answer import Answer, Header
from gateway.transport.errors import ClosedUnheard
from gateway.transport.question import Question
from gateway.transport.target import Origin

# What may come without a byte of a body: a head with all that precedes it, trailers, the extensions of a chunk.
_MAX_BARREN = 64 * 1024
_MAX_HEADERS = 256
_SWITCHING_PROTOCOLS = 101
_WITHOUT_BODY = (204, 304)


class Owner(Protocol):
    """Who is told of a connection's life. Plain functions, called from the event loop."""

    def freed(self, connection: Connection) -> None:
        """Its answer has ended and it can take another request."""

    def spoiled(self, connection: Connection) -> None:
        """It must not be used again."""

    def gone(self, connection: Connection) -> None:
        """Its socket is closed. Not told of one that nobody has got from `create_connection`."""


class Connection(asyncio.Protocol):
    """Free the moment that its answer has ended, read or not: what was received stays with the answer."""

    __slots__ = (
        "_answer",
        "_bare",
        "_barren",
        "_ended",
        "_headers",
        "_heard",
        "_informational",
        "_loop",
        "_owner",
        "_parser",
        "_reusable",
        "_transport",
        "_until_close",
        "_wants_body",
        "idle_since",
        "origin",
    )

    def __init__(self, origin: Origin, owner: Owner) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        # The parser holds bound methods of ours, so a closed connection lets it go.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._answer: Answer | None = None

    # The caller's side.

    def ask(self, question: Question) -> Answer:
        """Write a request. Its answer has begun when `answer.begun` is done."""
        assert self._answer is None, "one request at a time"
        answer = Answer(self, self._loop)
        self._headers: list[Header] = []
        self._barren = 0
        self._heard = self._bare = self._ended = self._informational = self._reusable = self._until_close = False
        self._wants_body = question.wants_body
        if self.closed:
            answer.fail(ClosedUnheard("the connection was closed"))
            return answer
        self._answer = answer
        assert self._transport is not None
        # One write, so that head and body leave together and Nagle's algorithm has nothing to wait for.
        self._transport.writelines([question.head, question.body])
        return answer

    @property
    def gone(self) -> bool:
        """Its owner has been told so."""
        return self._parser is None

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def cut(self) -> None:
        """Close at once; whatever answer was coming is nobody's any more."""
        self._answer = None
        self._owner.spoiled(self)
        if self._transport is not None:
            self._transport.abort()

    # The answer's side.

    def pause(self) -> None:
        if not self.closed and self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self.closed and self._transport is not None:
            self._transport.resume_reading()

    def leave(self, answer: Answer) -> None:
        if self._answer is answer:
            self.cut()

    # The event loop's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio.Transports in all but their base class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        answer, parser = self._answer, self._parser
        if answer is None or parser is None:
            # Nothing was asked: the end of an answer longer than it said, or a server's farewell.
            self.cut()
            return
        self._heard = True
        self._bare = True
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            if not self._ended:
                self._fail(_refusal(exc))
                return
            # The answer is whole. What follows it is nobody's.
            self._reusable = False
        if self._ended:
            self._finish(answer)
            return
        if self._bare:
            self._barren += len(data)
            if self._barren > _MAX_BARREN:
                self._fail(httpx.RemoteProtocolError(f"more than {_MAX_BARREN} bytes of headers"))
        else:
            self._barren = 0
            answer.flush()

    def eof_received(self) -> None:
        self._hung_up(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hung_up(exc)
        self._parser = None
        self._owner.gone(self)

    def _hung_up(self, exc: Exception | None) -> None:
        answer = self._answer
        if answer is None:
            self.cut()
        elif self._until_close and exc is None:
            self.cut()
            answer.end()
        elif self._heard:
            self._fail(httpx.RemoteProtocolError(f"closed inside the answer{_words(exc)}"), exc)
        else:
            self._fail(ClosedUnheard(f"closed before a byte of the answer{_words(exc)}"), exc)

    def _finish(self, answer: Answer) -> None:
        self._answer = None
        answer.end()
        transport = self._transport
        # A request not yet written to its end would go on into the next one's.
        if self._reusable and transport is not None and not self.closed and transport.get_write_buffer_size() == 0:
            self._owner.freed(self)
        else:
            self.cut()

    def _fail(self, error: httpx.TransportError, cause: BaseException | None = None) -> None:
        answer = self._answer
        self.cut()
        if answer is not None:
            error.__cause__ = cause
            answer.fail(error)

    # The parser's side: called from within `feed_data`, which turns what they raise into its own error's context.

    def on_message_begin(self) -> None:
        if self._ended:
            raise httpx.RemoteProtocolError("bytes after the end of the answer")
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._answer is not None and not self._answer.status:  # else a trailer
            if len(self._headers) >= _MAX_HEADERS:
                raise httpx.RemoteProtocolError(f"more than {_MAX_HEADERS} headers")
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        answer, parser = self._answer, self._parser
        assert answer is not None
        assert parser is not None
        status = parser.get_status_code()
        if status < 200:
            if status == _SWITCHING_PROTOCOLS:
                raise httpx.RemoteProtocolError("switched to a protocol that nobody asked for")
            self._informational = True
            return
        self._bare = False
        self._reusable = parser.should_keep_alive()
        if not self._reusable:
            self._until_close = not any(
                name.lower() in (b"content-length", b"transfer-encoding") for name, _ in self._headers
            )
        if not self._wants_body or status in _WITHOUT_BODY:
            # Their headers may tell of a body that never comes, and the parser would wait for it.
            self._ended, self._reusable = True, False
        answer.begin(status, self._headers)

    def on_body(self, body: bytes) -> None:
        if self._answer is not None and not self._ended:
            self._bare = False
            self._answer.add(body)

    def on_message_complete(self) -> None:
        if self._informational:
            self._informational = False
        else:
            self._ended = True


def _refusal(exc: Exception) -> httpx.TransportError:
    """httptools hides what a callback of ours raised behind an error of its own."""
    cause = exc.__context__
    if isinstance(cause, httpx.RemoteProtocolError):
        return cause
    refusal = httpx.RemoteProtocolError(f"not an HTTP answer: {exc}")
    refusal.__cause__ = exc
    return refusal


def _words(exc: Exception | None) -> str:
    return "" if exc is None else f": {exc or type(exc).__name__}"
