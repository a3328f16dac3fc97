"""Records in a file, each in a frame that proves it: what a crash tore is known from what it left whole.

A file begins with a mark of its own, made of random bytes; no content that an agent sends can pass for it. A frame is
that mark, the body's length and checksum, the checksum of these, and the body. Files are allocated whole before they
are written, so zeros follow the last frame.

Pure: bytes in, values out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from zlib import crc32

MAGIC: Final = b"rollout-gateway spool 1\n"
MARK_SIZE: Final = 8
HEADER_SIZE: Final = len(MAGIC) + MARK_SIZE
"""Of a file."""
_FIELDS: Final = struct.Struct(f"<{MARK_SIZE}sII")
_CHECK: Final = struct.Struct("<I")
FRAME_SIZE: Final = _FIELDS.size + _CHECK.size
"""Of a frame without its body."""
_PAGE: Final = 4096
"""A write that a kill cuts short ends where a page of the file does: the kernel takes it page by page."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A body that is as it was written, and where in the file it stands."""

    start: int
    end: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no frame, though whole ones follow them."""

    start: int
    end: int


def header(mark: bytes) -> bytes:
    return MAGIC + mark


def mark_of(header: bytes) -> bytes | None:
    """None: no file of ours begins so, unless its making was cut short: then it is all zeros."""
    return header[len(MAGIC) : HEADER_SIZE] if header.startswith(MAGIC) and len(header) >= HEADER_SIZE else None


def frame(mark: bytes, body: bytes) -> bytes:
    fields = _FIELDS.pack(mark, len(body), crc32(body))
    return b"".join((fields, _CHECK.pack(crc32(fields)), body))


def frames(mark: bytes, data: bytes, offset: int) -> Iterator[Frame | Damage]:
    """Every whole frame of the part of a file that begins at `offset`.

    What is damaged before the last of them is told, and passed over. `damage_behind` tells of what follows it.
    """
    at = 0
    while True:
        found = _frame_at(mark, data, at, offset)
        if found is None:
            found = _search(mark, data, at, offset)
            if found is None:
                return
            yield Damage(offset + at, found.start)
        yield found
        at = found.end - offset


def damage_behind(mark: bytes, rest: bytes, offset: int) -> int:
    """How many bytes are damage of those from `offset` to the end of the file, behind its last whole frame.

    None where a kill can have left them so: nothing but zeros, or the first pages of a frame and zeros. Whoever was
    writing that was never told that it is safe.
    """
    written = len(rest.rstrip(b"\0"))
    cut = written + -(offset + written) % _PAGE
    if written == 0 or (cut < FRAME_SIZE and rest.startswith(mark[:cut])):
        return 0
    fields = _fields_at(mark, rest, 0)
    torn = fields is not None and cut < FRAME_SIZE + fields[0] <= len(rest)
    return 0 if torn else written


def _fields_at(mark: bytes, data: bytes, at: int) -> tuple[int, int] | None:
    """Length and checksum of the body, where a frame begins."""
    if at + FRAME_SIZE > len(data):
        return None
    marked, length, checksum = _FIELDS.unpack_from(data, at)
    if marked != mark or _CHECK.unpack_from(data, at + _FIELDS.size)[0] != crc32(data[at : at + _FIELDS.size]):
        return None
    return length, checksum


def _frame_at(mark: bytes, data: bytes, at: int, offset: int) -> Frame | None:
    fields = _fields_at(mark, data, at)
    if fields is None:
        return None
    begin, (length, checksum) = at + FRAME_SIZE, fields
    body = data[begin : begin + length]
    whole = len(body) == length and crc32(body) == checksum
    return Frame(offset + at, offset + begin + length, body) if whole else None


def _search(mark: bytes, data: bytes, at: int, offset: int) -> Frame | None:
    """The next whole frame behind what is none."""
    while (at := data.find(mark, at + 1)) >= 0:
        found = _frame_at(mark, data, at, offset)
        if found is not None:
            return found
    return None
