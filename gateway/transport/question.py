"""A request as the bytes of one HTTP/1.1 request. Who is asked and where a body ends is written here alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import httpx

from gateway.transport.target import Target, target_of

# Those that say where a message begins and ends. Copied from a caller they could make two requests of one.
_FRAMING = frozenset(
    {b"host", b"connection", b"content-length", b"transfer-encoding", b"keep-alive", b"upgrade", b"te", b"trailer"}
)
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_METHOD = re.compile(r"[A-Z]+")


@dataclass(frozen=True, slots=True)
class Question:
    """One request, whole: the gateway has every body in memory before it dispatches, so it can be sent again."""

    head: bytes
    body: bytes
    wants_body: bool
    """False for HEAD, whose answer has the headers of a body and none."""


def question(method: str, target: Target, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> Question:
    """Without the framing headers among these. Raises httpx.LocalProtocolError for what would not be one request."""
    return Question(_head(method, target, headers, len(body)), body, method != "HEAD")


async def question_of(request: httpx.Request) -> Question:
    """As `question`, of what httpx has made."""
    stream = request.stream
    if isinstance(stream, httpx.SyncByteStream):
        body = b"".join(stream)
    else:
        assert isinstance(stream, httpx.AsyncByteStream)
        body = b"".join([part async for part in stream])
    return question(request.method, target_of(request.url), request.headers.raw, body)


def _head(method: str, target: Target, headers: Iterable[tuple[bytes, bytes]], length: int) -> bytes:
    if _METHOD.fullmatch(method) is None:
        raise httpx.LocalProtocolError(f"not a method: {method!r}")
    lines = [b"%s %s HTTP/1.1" % (method.encode(), target.path), b"host: " + target.authority]
    for name, value in headers:
        if (begin := _begin_of(name)) is not None:
            lines.append(begin + value)
    if length or method not in ("GET", "HEAD"):
        lines.append(b"content-length: %d" % length)
    lines.append(b"\r\n")
    head = b"\r\n".join(lines)
    # Each line ends once: one more CR, LF or NUL came in by a value, and would begin a header of its own.
    if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines) or b"\0" in head:
        raise httpx.LocalProtocolError("a header or the URL holds a line break or NUL")
    return head


@lru_cache(1024)
def _begin_of(name: bytes) -> bytes | None:
    """How the line of a header begins; null for one of the framing. Raises httpx.LocalProtocolError."""
    if name.lower() in _FRAMING:
        return None
    if _NAME.fullmatch(name) is None:
        raise httpx.LocalProtocolError(f"not a header's name: {name!r}")
    return name + b": "
