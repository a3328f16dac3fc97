"""Floats and ids as packed bytes, and a cutter that takes them apart again in the same order."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, Literal, cast

import msgspec
import numpy as np

from adapters.token_ids import TokenIds

_ID_WIDTH: Final = 4


class BadPayload(ValueError):
    """A payload whose parts do not fit each other."""


class PackedLogprobs(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is told of a choice's logprobs beside their array."""

    dtype: Literal["f4", "f8"]
    nulls: tuple[int, ...] = ()
    """Positions of the nulls; a value of 0.0 holds their place in the array."""


def pack_logprobs(logprobs: Sequence[float | None]) -> tuple[PackedLogprobs, bytes]:
    """Engines print float32 as doubles: float32 where every value is the same number, else float64."""
    try:
        return _pack(logprobs, ())
    except struct.error:  # Only floats are packed, and a null is none.
        nulls = tuple(i for i, logprob in enumerate(logprobs) if logprob is None)
        return _pack([0.0 if logprob is None else logprob for logprob in logprobs], nulls)


def _pack(values: Sequence[float | None], nulls: tuple[int, ...]) -> tuple[PackedLogprobs, bytes]:
    """Raises struct.error where one is null."""
    floats, doubles = f"<{len(values)}f", f"<{len(values)}d"
    try:
        singles = struct.pack(floats, *values)  # For a few hundred, half of what numpy takes.
    except OverflowError:
        return PackedLogprobs("f8", nulls), struct.pack(doubles, *values)
    if struct.unpack(floats, singles) == tuple(values):
        return PackedLogprobs("f4", nulls), singles
    return PackedLogprobs("f8", nulls), struct.pack(doubles, *values)


class Cutter:
    """Takes from a payload's part the pieces that its tail tells, one after the other. Raises BadPayload."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> bytes:
        piece = self._data[self._at : self._at + length]
        if len(piece) != length:
            raise BadPayload("a part ends before its tail says")
        self._at += length
        return piece

    def token_ids(self, count: int | None) -> TokenIds | None:
        return None if count is None else TokenIds.from_bytes(self.take(count * _ID_WIDTH))

    def logprobs(self, packed: PackedLogprobs, count: int) -> tuple[float | None, ...]:
        dtype = np.dtype("<" + packed.dtype)
        values = cast("list[float | None]", np.frombuffer(self.take(count * dtype.itemsize), dtype).tolist())
        for position in packed.nulls:
            values[position] = None
        return tuple(values)
