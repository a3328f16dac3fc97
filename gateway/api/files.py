"""Samples as a file of many rows: JSON lines, Parquet, an Arrow stream; whole, or a part that says what follows.

A file that broke off can't be told from its head, and its foot never came. So who wants to go on where a break was asks
for parts: `limit` sessions (or traces) each. The header of a part names the cursor of the next before any row is made;
a part that broke off is asked for again, with the cursor that it had.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from gateway.api.listing import JSON_LINES, accepted
from gateway.api.rows import Reader, SampleRows, Walk, WholeSession, each
from gateway.api.streaming import file_of, streamed
from storage.formats.writers import CannotWrite, Encoder, FileFormat, encoder_of

NEXT_CURSOR: Final = "x-next-cursor"
COMPLETE: Final = "x-complete"
"""Whether all that was answered when the file was asked for is in it, or behind its cursor: `complete` of a list."""
WORDS: Final = {True: "true", False: "false"}

_MEDIA_TYPES: Final[dict[str, FileFormat]] = {
    JSON_LINES: "jsonl",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.apache.arrow.stream": "arrow",
}
_TEXT: Final = {"schema": {"type": "string"}}
_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
CONTENT: Final[dict[str, Any]] = {
    media_type: _TEXT if file_format == "jsonl" else _BINARY for media_type, file_format in _MEDIA_TYPES.items()
}
"""What OpenAPI says of such an answer."""


def accepted_format(request: Request) -> FileFormat | None:
    """The first kind of file that the request accepts; None for JSON."""
    return next((_MEDIA_TYPES[media_type] for media_type in accepted(request) if media_type in _MEDIA_TYPES), None)


def sample_encoder(file_format: FileFormat, shape: str) -> Encoder:
    """Raises CannotWrite where rows of that shape can't be had so, or an extra is missing."""
    if shape != "flat" and file_format != "jsonl":
        raise CannotWrite(f"Rows in the shape {shape} are had as JSON, or as JSON lines (format=jsonl).")
    return encoder_of(file_format, "flat")


async def sample_file(walk: Walk, rows: SampleRows, encoder: Encoder, limit: int | None, *, complete: bool) -> Response:
    """Of all sessions on the way, or of the next `limit`."""
    told = {COMPLETE: WORDS[complete]}
    if limit is None:
        return await _streamed(Reader(walk.store, walk.rest()), rows, encoder, told)
    page = await walk.page(limit)
    following = {NEXT_CURSOR: page.next} if page.items and page.next is not None else {}
    return await _streamed(Reader(walk.store, each(page.items)), rows, encoder, told | following)


async def session_file(whole: WholeSession, rows: SampleRows, encoder: Encoder, *, complete: bool) -> Response:
    """Of one session alone."""
    left = [[whole], []]

    async def read() -> list[WholeSession]:
        return left.pop(0)

    return await _streamed(read, rows, encoder, {COMPLETE: WORDS[complete]})


async def _streamed(
    read: Callable[[], Awaitable[list[WholeSession]]], rows: SampleRows, encoder: Encoder, headers: Mapping[str, str]
) -> Response:
    parts = file_of(read, encoder, lambda held: encoder.add(rows.of(held)))
    return await streamed(parts, encoder.media_type, headers)
