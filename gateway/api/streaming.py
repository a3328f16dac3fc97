"""Answers in parts: begun when the first is there, in pieces that a connection takes well, broken off by failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from starlette.responses import StreamingResponse

from storage.formats.writers import Encoder

Item = TypeVar("Item")

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
    read: Callable[[], Awaitable[Sequence[Item]]], encoder: Encoder, encode: Callable[[Sequence[Item]], bytes]
) -> AsyncIterator[bytes]:
    """A file part by part, of what `read` gives until it gives none.

    Its head comes with the first part, so that what fails there leaves nothing begun. What was read is let go before
    its bytes are given away, for their reader may be slow.
    """
    head = encoder.start()
    while items := await read():
        part = await asyncio.to_thread(encode, items)
        del items
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
