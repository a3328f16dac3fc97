"""`/api/samples` and a session's own: training samples, built of traces as they are asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, TypeAlias, get_type_hints

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import create_model

from gateway.api.encoding import encode
from gateway.api.files import CONTENT, accepted_format, sample_encoder, sample_file, session_file
from gateway.api.listing import JSON, with_news
from gateway.api.parts import ApiParts, Parts
from gateway.api.rows import Reader, SampleRows, Walk, WholeSession, each
from gateway.api.sample_filters import SampleFields, SampleFilters
from gateway.api.scoped import needs
from gateway.api.streaming import streamed
from gateway.sessions import check_session_id
from storage.formats.shapes import SHAPES
from storage.formats.writers import encode_row
from storage.samples.sample import Sample

router = APIRouter(tags=["samples"], dependencies=[needs("trace:read")])

PAGE_BYTES: Final = 32 * 1024 * 1024
"""A page ends with the sessions that bring it to so many bytes, so that a JSON parser can hold it."""
# How many sessions a page goes on by: it can end between such steps alone.
_STEP: Final = 8

# The sample itself, with its arrays as the lists that JSON has.
_AS_LISTS: Final[dict[str, Any]] = {"mask": list[int], "logprobs": list[float | None]}
_FIELDS: Final[dict[str, Any]] = {
    name: (_AS_LISTS.get(name, hint), ...) for name, hint in get_type_hints(Sample).items()
}
FlatSample: TypeAlias = create_model("FlatSample", __doc__=Sample.__doc__, **_FIELDS)  # type: ignore[valid-type]


@dataclass(frozen=True, slots=True)
class SamplePage:
    items: tuple[FlatSample | dict[str, Any], ...]
    """In the shape `flat` as told here; in another one its trainer's own record."""
    next: str | None
    complete: bool


_FILES: Final[dict[int | str, dict[str, Any]]] = {200: {"content": CONTENT}}


@router.get("/samples", response_model=SamplePage, responses=_FILES)
async def list_samples(filters: Annotated[SampleFilters, Query()], request: Request, parts: Parts) -> Response:
    """Samples of ended sessions, in the order of their ends; all rows of a session stand on one page.

    `limit` counts sessions. No items: there is nothing more for now. `next` goes on from here then too, and with
    `wait` it waits for sessions that end. With `accept` of JSON lines, Parquet or an Arrow stream the answer is that
    file, of all sessions or of the next `limit`, as of `/api/export`.
    """
    walk = Walk(parts.store, filters.query())
    rows = SampleRows(SHAPES[filters.shape], filters.options())
    file_format = accepted_format(request)
    if file_format is None:
        return await streamed(_page(walk, rows, filters, request, parts), JSON)
    encoder = sample_encoder(file_format, filters.shape)
    await with_news(lambda: parts.store.ended_sessions(filters.query(limit=1)), filters.wait, request, parts)
    limit = filters.limit if "limit" in filters.model_fields_set else None
    return await sample_file(walk, rows, encoder, limit, complete=await parts.complete())


@router.get("/sessions/{session_id}/samples", response_model=SamplePage, responses=_FILES)
async def list_session_samples(
    session_id: Annotated[str, Path()], fields: Annotated[SampleFields, Query()], request: Request, parts: Parts
) -> Response:
    """A session's samples, whatever its status: of an open one, those of its calls so far."""
    session = await parts.sessions.get(check_session_id(session_id))
    rows = SampleRows(SHAPES[fields.shape], fields.options())
    file_format = accepted_format(request)
    encoder = None if file_format is None else sample_encoder(file_format, fields.shape)
    complete = await parts.complete()
    whole = WholeSession(session, await parts.store.whole_session(session_id))
    if encoder is not None:
        return await session_file(whole, rows, encoder, complete=complete)
    items = await asyncio.to_thread(_encoded, rows, [whole])
    return await streamed(_alone(items, complete=complete), JSON)


async def _page(
    walk: Walk, rows: SampleRows, filters: SampleFilters, request: Request, parts: ApiParts
) -> AsyncIterator[bytes]:
    """It ends between two steps only; and while nothing came of its sessions it goes on, for no items are the end."""
    deadline = time.monotonic() + filters.wait
    complete = await parts.complete()
    seen = size = 0
    while (seen < filters.limit and size < PAGE_BYTES) or not size:
        step = max(1, min(_STEP, filters.limit - seen))
        patience = 0 if size else deadline - time.monotonic()
        page = await with_news(partial(walk.page, step), patience, request, parts)
        if not page.items:
            break
        seen += len(page.items)
        read = Reader(walk.store, each(page.items))
        while held := await read():
            items = await asyncio.to_thread(_encoded, rows, held)
            del held
            if items:
                yield (b"," if size else b'{"items":[') + items
                size += len(items)
    yield (b"" if size else b'{"items":[') + _ending(walk.query.cursor, complete=complete and await parts.complete())


async def _alone(items: bytes, *, complete: bool) -> AsyncIterator[bytes]:
    yield b'{"items":['
    yield items
    yield _ending(None, complete=complete)


def _ending(following: str | None, *, complete: bool) -> bytes:
    return b'],"next":%b,"complete":%b}' % (encode(following), encode(complete))


def _encoded(rows: SampleRows, sessions: list[WholeSession]) -> bytes:
    return b",".join(map(encode_row, rows.of(sessions)))
