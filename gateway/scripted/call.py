"""The ledger's unit: one request as it came, and what has been told of its answer so far."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.types import Receive, Scope

from adapters.scripts.asked import Asked
from adapters.scripts.speech import Speech


@dataclass(slots=True)
class Call:
    method: str
    path: str
    """As on the wire: not decoded, with the query."""
    headers: tuple[tuple[str, str], ...]
    """Names in lower case, in their order."""
    body: bytes
    arrived: float
    """On the monotonic clock, as the times below."""
    asked: Asked | None = None
    speeches: tuple[Speech, ...] = ()
    """What is said, one a choice: all of its tokens, told or not."""
    status: int | None = None
    told: list[tuple[int, int]] = field(default_factory=list)
    """`(choice index, token id)` of each completion id whose bytes have left whole."""
    finished: float | None = None
    """When all that was to be sent had been."""
    gone: float | None = None
    """When the caller closed the connection before that."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with the one or the other."""

    @property
    def route(self) -> str:
        return self.path.partition("?")[0]

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return msgspec.json.decode(self.body)

    @property
    def open(self) -> bool:
        return not self.ended.is_set()

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    def told_of(self, index: int) -> list[int]:
        """The ids that have been told of one choice."""
        return [token_id for told_index, token_id in self.told if told_index == index]


async def received(scope: Scope, receive: Receive) -> Call:
    """The request, once its body is whole (or its caller gone)."""
    arrived = time.monotonic()
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    query = scope["query_string"]
    path = scope.get("raw_path") or scope["path"].encode()
    return Call(
        method=scope["method"],
        path=(path + b"?" + query if query else path).decode("latin-1"),
        headers=tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]),
        body=bytes(body),
        arrived=arrived,
    )
