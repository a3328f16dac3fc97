"""Lists: a page as JSON, encoded in a thread and sent part by part; what is accepted; waiting for news."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final, TypeVar

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from adapters.schema import Trace
from gateway.api.encoding import Selection, batches, encode
from gateway.api.parts import ApiParts
from storage.records import Page

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


async def complete_page(
    read: Callable[[], Awaitable[Page[Item]]], seconds: float, request: Request, parts: ApiParts
) -> tuple[Page[Item], bool]:
    """As `with_news`, and whether all that was answered is in it, or behind its `next`.

    That is asked before as well as after: between the two a spool may have been drained behind the page's back.
    """
    before = await parts.complete()
    page = await with_news(read, seconds, request, parts)
    return page, before and await parts.complete()


def accepted(request: Request) -> Iterator[str]:
    """The media types that the request names, in its order."""
    return (part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(","))


def traces_page(page: Page[Trace], selection: Selection, *, complete: bool) -> Response:
    return StreamingResponse(_page_parts(page, selection, complete), media_type=JSON)


async def _page_parts(page: Page[Trace], selection: Selection, complete: bool) -> AsyncIterator[bytes]:
    yield b'{"items":['
    comma = b""
    for batch in batches(page.items):
        yield comma + b",".join(await asyncio.to_thread(selection.encode_all, batch))
        comma = b","
    yield b'],"next":%b,"complete":%b}' % (encode(page.next), encode(complete))
