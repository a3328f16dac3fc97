"""Plain ASGI, in the few shapes that the agents' plane needs: headers in, a bounded body in, one answer out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from starlette.types import Receive, Scope, Send

from gateway.deadline import Deadline

RawHeaders = list[tuple[bytes, bytes]]

# A client that is still sending when it is refused sees a reset instead of the reason; so the rest is read and dropped.
_DRAIN_BYTES = 256 * 1024 * 1024
_DRAIN_SECONDS = 10.0
# A large body on a slow line has a second more for so many bytes that have come; who trickles them has no more.
_BYTES_A_SECOND = 64 * 1024


class BodyTooLarge(Exception):
    """The request's body is over the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the request body is larger than {limit} bytes")
        self.limit = limit


class ClientGone(Exception):
    """The client closed its connection before it had sent the whole request."""


def headers_of(scope: Scope) -> Mapping[str, str]:
    """Request headers, lower-case names; of a header sent twice the last counts."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def read_body(
    receive: Receive,
    headers: Mapping[str, str],
    limit: int,
    *,
    seconds: float,
    take: Callable[[int], None] | None = None,
) -> bytes:
    """The whole request body. Raises BodyTooLarge (after taking in what still comes), TimeoutError or ClientGone.

    `take` is told the size of each part as it comes, and raises to stop. `seconds` count from the first part on; it is
    the server's to see that one comes (most bodies have one, and a timer for each would cost more than reading it).
    """
    declared = headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > limit:
        await _drain(receive)
        raise BodyTooLarge(limit)
    parts: list[bytes] = []
    size = 0

    async def more() -> bool:
        """Takes in the next part. False once it was the last."""
        nonlocal size
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        goes_on: bool = message.get("more_body", False)
        size += len(part)
        if size > limit:
            if goes_on:
                await _drain(receive)
            raise BodyTooLarge(limit)
        if take is not None:
            take(len(part))
        parts.append(part)
        return goes_on

    if await more():
        now = asyncio.get_running_loop().time
        until = now() + seconds
        with Deadline(seconds) as deadline:
            while await more():
                deadline.move(until + size / _BYTES_A_SECOND - now())
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _drain(receive: Receive) -> None:
    """Take in and forget the rest of a body, within bounds."""
    left = _DRAIN_BYTES
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while left > 0:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
                left -= len(message.get("body", b""))
    except TimeoutError:
        return


async def disconnected(receive: Receive) -> None:
    """Returns when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def encode_headers(headers: Iterable[tuple[str, str]]) -> RawHeaders:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


async def send_whole(send: Send, status: int, body: bytes, headers: Iterable[tuple[str, str]]) -> None:
    """A complete answer, with its length."""
    raw = encode_headers(headers)
    raw.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
