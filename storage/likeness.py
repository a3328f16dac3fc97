"""How much two texts share, though neither begins with the other: sketches of what stands in them, wherever it stands.

A sketch is a sample of hashes of 16-byte pieces. Both the pieces' places and the sample are chosen by content, so that
the same passage leaves the same hashes in two texts at whatever offset.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Sketch = npt.NDArray[np.uint64]

_PIECE: Final = 16
_PLACES: Final = 32
"""One byte pair in so many is a place."""
_SAMPLE: Final = 4
"""One piece in so many is kept."""


def sketch(text: bytes) -> Sketch:
    """Sorted hashes, some 1,000 for 128 KB. 0.2 ms for that many."""
    data = np.frombuffer(text, np.uint8)
    if len(data) <= _PIECE:
        return np.empty(0, np.uint64)
    pairs = data[:-1] * np.uint8(181) + data[1:] * np.uint8(79)
    places = np.flatnonzero(pairs[: len(data) - _PIECE] % _PLACES == 7)
    pieces = data[places[:, None] + np.arange(_PIECE)].view(np.uint64)
    hashes = (pieces[:, 0] * np.uint64(0x9E3779B97F4A7C15)) ^ (pieces[:, 1] * np.uint64(0xC2B2AE3D27D4EB4F))
    hashes ^= hashes >> np.uint64(29)
    return np.unique(hashes[hashes % np.uint64(_SAMPLE) == 0])


def shared(one: Sketch, other: Sketch) -> int:
    """How many hashes the two have in common."""
    return len(np.intersect1d(one, other, assume_unique=True))
