"""Answers in parts: begun when the first is there, in pieces that a connection takes well, broken off by failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Final, TypeVar

from starlette.responses import StreamingResponse

from storage.formats.writers import Encoder

Unit = TypeVar("Unit")

# A part may be megabytes. In pieces, the wait for a slow reader comes before the next is in the connection's buffer.
_PIECE: Final = 256 * 1024


async def streamed(
    parts: AsyncIterator[bytes], media_type: str, headers: Mapping[str, str] | None = None
) -> StreamingResponse:
    """What fails before the first part raises here, and is an answer of its own. Later the answer has no end.

    Parts may be empty. They are made no faster than they are read, and no more once the reader has gone.
    """
    first = await anext(parts, b"")
    return StreamingResponse(_pieces(first, parts), media_type=media_type, headers=headers)


async def file_of(
    units: AsyncIterator[Unit], encoder: Encoder, encode: Callable[[Unit], bytes]
) -> AsyncIterator[bytes]:
    """A file part by part: its head comes with the first unit, so that a unit that fails leaves nothing begun."""
    head = encoder.start()
    async for unit in units:
        part = await asyncio.to_thread(encode, unit)
        del unit  # The next is read before this name is bound anew, and two are more than one.
        yield head + part
        head = b""
    yield head + await asyncio.to_thread(encoder.end)


async def _pieces(first: bytes, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    for piece in _cut(first):
        yield piece
    del first
    async for part in parts:
        for piece in _cut(part):
            yield piece


def _cut(part: bytes) -> Iterator[bytes]:
    return (part[start : start + _PIECE] for start in range(0, len(part), _PIECE))
