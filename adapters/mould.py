"""Chunks alike: nearly every chunk of a stream is the one before it with other values in the same places.

A mould is the text that such chunks share. Whatever has this text, byte for byte, around JSON values of its own is read
by these alone, and a run of such chunks at once. That the values are JSON is enough: whoever reads the shared text up
to a slot reads one value there and goes on behind it.
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
# Between two values: a line of a stream cannot have a line end in it.
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

    __slots__ = ("_gaps", "_head", "_open", "_tail", "_text", "client", "targets", "width")

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
        first, *self._gaps, self._tail = fixed
        self._head = prefix + first
        self._text = Form(fixed, range(self.width))
        self._open = open_chunk

    def parts(self, blocks: Sequence[bytes], start: int, end: int) -> list[bytes]:
        """What stands in the slots of these blocks, from the first on and as far as they have the shared text."""
        parts: list[bytes] = []
        head, gaps, tail = self._head, self._gaps, self._tail
        begin, until = len(head), -len(tail)
        for block in blocks[start:end]:
            if not block.startswith(head) or not block.endswith(tail):
                break
            rest = block[begin:until]
            for gap in gaps:
                part, _, rest = rest.partition(gap)
                parts.append(part)
            parts.append(rest)
            if not rest:  # The last gap was not there.
                del parts[-self.width :]
                break
        return parts

    def values(self, parts: Sequence[bytes]) -> Values | None:
        """The values that these parts are; None unless each is one, by itself, and none is null."""
        told = _SEAM.join(parts)
        if told.count(b"\n") != len(parts) - 1 or _NULL in b"\n" + told + b",":
            return None
        try:
            values = _values(b"[" + told + b"]")
        except REFUSALS:
            return None
        # `[1` and `2]` are one value together, and `1,2` is two: as many then as parts, but not with the same seams.
        return values if len(values) == len(parts) and _SEAM.join(values) == told else None

    def opened(self, values: Values) -> Iterator[Chunk]:
        """The chunks that have these values, as if each had come alone."""
        for start in range(0, len(values), self.width):
            yield self._open(self._text.filled(values[start : start + self.width], self.width))
