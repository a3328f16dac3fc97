"""Lists: a page as JSON or every page as JSON lines, encoded in a thread and sent part by part; waiting for news."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from adapters.schema import Trace
from gateway.api.encoding import Selection, batches, encode
from gateway.api.parts import ApiParts
from storage.records import Page, TraceQuery

JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0

Item = TypeVar("Item")


def json_answer(value: object, status: int = 200) -> Response:
    """For small values. What may be large goes through a thread."""
    return Response(encode(value), status, media_type=JSON)


async def with_news(
    read: Callable[[], Awaitable[Page[Item]]], seconds: float, request: Request, parts: ApiParts
) -> Page[Item]:
    """The page as soon as it has something; as it is after so many seconds, or when nobody waits any more."""
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    page = await read()
    while not page.items and (left := deadline - time.monotonic()) > 0:
        if parts.stopping() or await request.is_disconnected():
            break
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 1.5, _LONGEST_PAUSE)
        page = await read()
    return page


def wants_json_lines(request: Request) -> bool:
    accepted = (part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(","))
    return JSON_LINES in accepted


def traces_page(page: Page[Trace], selection: Selection, *, complete: bool) -> Response:
    return StreamingResponse(_page_parts(page, selection, complete), media_type=JSON)


def trace_lines(
    page: Page[Trace], query: TraceQuery, selection: Selection, parts: ApiParts, *, total: int | None
) -> Response:
    """Every trace from `page` on, or `total` of them: a line each. What breaks off ends without its last chunk."""
    return StreamingResponse(_lines(page, query, selection, parts, total), media_type=JSON_LINES)


async def _page_parts(page: Page[Trace], selection: Selection, complete: bool) -> AsyncIterator[bytes]:
    yield b'{"items":['
    comma = b""
    for batch in batches(page.items):
        yield comma + b",".join(await asyncio.to_thread(selection.encode_all, batch))
        comma = b","
    yield b'],"next":%b,"complete":%b}' % (encode(page.next), encode(complete))


async def _lines(
    page: Page[Trace], query: TraceQuery, selection: Selection, parts: ApiParts, total: int | None
) -> AsyncIterator[bytes]:
    left = total
    while True:
        items = page.items if left is None else page.items[:left]
        for batch in batches(items):
            lines = await asyncio.to_thread(selection.encode_all, batch)
            yield b"\n".join([*lines, b""])
        if left is not None:
            left -= len(items)
        if page.next is None or left == 0:
            return
        page = await parts.store.traces(replace(query, cursor=page.next))
