"""uvicorn's HTTP/1.1 connection as one that strangers may open: it takes one request at a time, in bounds, in time.

Counting is by reads from the socket and not by headers: a call pays next to nothing for it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from gateway.edge.doorway import Doorway
from gateway.edge.framing import MAX_HEAD_BYTES, check_head, drop_named
from gateway.edge.refusals import HeadTooLarge, Malformed, NoTunnel, TooManyConnections
from gateway.edge.refusing import answer_of
from gateway.refusals import Late, Refusal

logger = logging.getLogger(__name__)


class AgentConnection(HttpToolsProtocol):
    """`doorway` is what it shares with the others of its listener."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        doorway: Doorway,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._doorway = doorway
        self.since = 0.0
        self._head_bytes = 0
        self._in_body = False
        self._refusal: Refusal | None = None
        self._deaf = False
        """It was refused: what still comes is read and forgotten."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.url = b""
        self._exit = cast(asyncio.Transport, _Exit(self, transport))
        self.since = self.loop.time()
        full = self._doorway.full
        self._doorway.entered(self)
        if full:
            self._refuse(TooManyConnections("This gateway has as many connections as it may; try again."))

    def connection_lost(self, exc: Exception | None) -> None:
        self._doorway.left(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        cycle = self.cycle
        answered = cycle is None or cycle.response_complete
        if not self._in_body:
            if not answered:
                # Nobody has to take a second request before the first is answered, and no client of ours sends one.
                cycle.keep_alive = False
                return
            self._head_bytes = len(data) if not self.since else self._head_bytes + len(data)
        if answered and not self.since:
            self.since = self.loop.time()
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            self._decline(data[exc.args[0] :])
        except httptools.HttpParserError as exc:
            self._give_up(exc)
        else:
            if self.since and not self._in_body and self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(HeadTooLarge(f"The request's head is larger than {MAX_HEAD_BYTES} bytes."))

    # The parser's side: what these raise comes out of `feed_data` as a HttpParserError.

    def on_message_begin(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            raise _SecondRequest
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        try:
            if self._head_bytes > MAX_HEAD_BYTES:
                self._measure()
            check_head(self.parser.get_http_version(), self.url, self.headers)
        except Refusal as refusal:
            self._refusal = refusal
            raise
        self._in_body = True
        super().on_headers_complete()
        self.cycle.transport = self._exit
        if self._doorway.closing:
            self.cycle.keep_alive = False
        # Trailers are told like headers, and would be taken for some: they go to a list that nobody reads.
        self.headers = []

    def on_body(self, body: bytes) -> None:
        if not self.cycle.response_complete:
            # It has begun to come, and who takes it in counts the time from here on.
            self.since = 0.0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._in_body = False
        self.since = 0.0
        if self.cycle.response_complete:
            # Its answer was there before its end, and the time for the next request began to count then. What was read
            # with its head was body too, and is nothing of the next one's.
            self.since = self.loop.time()
            self._head_bytes = 0
        super().on_message_complete()

    # The doorway's side.

    def overdue(self) -> None:
        if self._deaf or not self._head_bytes or self.transport.is_closing():
            self.since = 0.0
            self.transport.close()
        elif self._in_body and self.cycle.response_complete:
            self.transport.close()
        else:
            what = "body did not begin to" if self._in_body else "head did not"
            self._refuse(Late(f"The request's {what} come within {self._doorway.receive_timeout:g} s."))

    def _measure(self) -> None:
        """Of a large read most may be the body's."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MAX_HEAD_BYTES:
            raise HeadTooLarge(f"The request's head is larger than {MAX_HEAD_BYTES} bytes.")

    def _decline(self, rest: bytes) -> None:
        """Go on as if nothing else had been offered (RFC 9110, 7.8): this parser would skip the body.

        Java's own client offers HTTP/2 with its every first request.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(NoTunnel())
            return
        drop_named(self.headers)
        kept = [b"%s: %s\r\n" % header for header in self.headers if header[0] != b"connection"]
        head = b"%s %s HTTP/1.1\r\n%s\r\n" % (method, self.url, b"".join(kept))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(head + rest)

    def _give_up(self, exc: httptools.HttpParserError) -> None:
        if isinstance(exc.__context__, _SecondRequest):
            self.cycle.keep_alive = False
            return
        if self._refusal is None and isinstance(exc, httptools.HttpParserCallbackError):
            logger.debug("a request's head could not be read", exc_info=exc)
        self._refuse(self._refusal or Malformed("This is not a request that HTTP/1.1 allows."))

    def _refuse(self, refusal: Refusal) -> None:
        """Answer, unless an answer has begun, and take in no more."""
        self._deaf = True
        self._unset_keepalive_if_required()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
                return
        logger.info("refused %s: %d, %s", self.client, refusal.status, refusal)
        self.transport.write(answer_of(refusal, self.url))
        self._linger()

    def leave(self) -> None:
        """Its answer is written, and the connection is not kept."""
        if self._in_body:
            self._deaf = True
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        """Say no more, but read on: closed at once, whoever is still sending would see a reset and not the answer."""
        if not self.transport.is_closing():
            self.transport.write_eof()
            self.since = self.loop.time()


class _Exit:
    """A connection's transport as its answers see it."""

    __slots__ = ("_connection", "is_closing", "write")

    def __init__(self, connection: AgentConnection, transport: asyncio.Transport) -> None:
        self._connection = connection
        self.write = transport.write
        self.is_closing = transport.is_closing

    def close(self) -> None:
        self._connection.leave()


class _SecondRequest(Exception):
    """It begins before the first is answered."""
