"""Chunks alike: nearly every chunk of a stream is the one before it with other values in the same places.

A mould is the text that such chunks share. Whatever has this text, byte for byte, around JSON values of its own is read
by these alone: a run of chunks at once, in a few calls that are the same for one and for a hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from adapters.answer_shape import Chunk
from adapters.raw import REFUSALS
from adapters.rules import ByColumn

Values = list[Raw]
"""The values of chunks alike, one chunk's after the other's."""

BLANK_LINE: Final = b"\n\n"
# Between two values, where all that chunks share is cut out: a line end cannot stand within a line of a stream.
_SEAM: Final = b",\n"
_NULL: Final = b"\nnull,"
_values: Final = msgspec.json.Decoder(list[Raw]).decode


class Form:
    """A text with slots: what stands before, between and after them, and which value comes into each."""

    __slots__ = ("_first", "_fixed", "_last", "_slots")

    def __init__(self, fixed: Sequence[bytes], slots: Sequence[int]) -> None:
        first, *between = fixed
        self._first = first
        self._last = between[-1] if between else b""
        # The end of one text and the beginning of the next are one part.
        self._fixed: list[bytes | Raw] = [self._last + first, *between[:-1]]
        self._slots = tuple(slots)

    def filled(self, values: Values, width: int) -> bytes:
        """The texts with these values, one after the other; each takes `width` of them."""
        count = len(values) // width
        if not self._slots:
            return self._first * count
        step = 2 * len(self._slots)
        parts: list[bytes | Raw] = [b""] * (count * step)
        parts[::2] = self._fixed * count
        for place, slot in enumerate(self._slots):
            parts[2 * place + 1 :: step] = values[slot::width]
        parts[0] = self._first
        parts.append(self._last)
        return b"".join(parts)


Target = tuple[int, ByColumn]
"""A slot, and what its values are folded into."""


class Mould:
    """What chunks alike have in common, and where in the folded answer their values go."""

    __slots__ = ("_gaps", "_head", "_open", "_prefix", "_tail", "_text", "client", "targets", "width")

    def __init__(
        self,
        prefix: bytes,
        fixed: Sequence[bytes],
        targets: Sequence[Target],
        client: Form,
        open_chunk: Callable[[bytes], Chunk],
    ) -> None:
        """`fixed` stands before, between and after the slots of a chunk; `prefix` is what its event begins with."""
        self.width = len(fixed) - 1
        self.targets = targets
        self.client = client
        """What an agent gets of such a chunk."""
        self._prefix = prefix
        first, *between, self._tail = fixed
        self._head = prefix + first
        # A gap may be a part of another one: the longest first.
        self._gaps = sorted(set(between), key=len, reverse=True)
        self._text = Form([self._head, *between, self._tail + BLANK_LINE], range(self.width))
        self._open = open_chunk

    def likely(self, blocks: Sequence[bytes], start: int, end: int) -> int:
        """How many of these blocks, from the first one on, begin and end like chunks of this mould."""
        head, tail = self._head, self._tail
        for number in range(start, end):
            if not blocks[number].startswith(head) or not blocks[number].endswith(tail):
                return number - start
        return end - start

    def values(self, blocks: Sequence[bytes]) -> Values | None:
        """The values of chunks that are all of this mould, none of them null; None for any others."""
        start, end = len(self._head), -len(self._tail)
        cut = _SEAM.join([block[start:end] for block in blocks])
        for gap in self._gaps:
            cut = cut.replace(gap, _SEAM)
        count = len(blocks) * self.width
        # As many lines as values, so that no value has a line end in it.
        if cut.count(b"\n") != count - 1 or _NULL in b"\n%b," % cut:
            return None
        try:
            values = _values(b"[" + cut + b"]")
        except REFUSALS:
            return None
        # Each value is JSON by itself, so if the shared text around it makes the chunks again, it is what they say.
        told = BLANK_LINE.join([*blocks, b""])
        return values if len(values) == count and self._text.filled(values, self.width) == told else None

    def first_unlike(self, blocks: Sequence[bytes]) -> int | None:
        """Where the first block stands that lacks a part of the shared text, if any does."""
        for number, block in enumerate(blocks):
            for gap in self._gaps:
                if gap not in block:
                    return number
        return None

    def opened(self, values: Values) -> Iterator[Chunk]:
        """The chunks that have these values, as if each had come alone."""
        for start in range(0, len(values), self.width):
            block = self._text.filled(values[start : start + self.width], self.width)
            yield self._open(block[len(self._prefix) : -len(BLANK_LINE)])
