"""Where two sequences of ids part, and where they are alike again. In time linear in their length."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from adapters.token_ids import TokenIds

_ALIKE: Final = 4
"""Ids in a row that are the same on both sides are no accident."""
_LOOKED_AT: Final = 16 * 1024
"""Ids after a break in which the two are looked for again."""
_PRIMES: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5], np.uint64)

Ids = npt.NDArray[np.int32]


def common(one: TokenIds, other: TokenIds) -> int:
    """How many ids two sequences begin with alike."""
    if other.startswith(one):
        return len(one)
    shorter = min(len(one), len(other))
    differing = one.numpy()[:shorter] != other.numpy()[:shorter]
    at = int(differing.argmax()) if shorter else 0
    return at if shorter and differing[at] else shorter


def meeting(one: Ids, other: Ids) -> tuple[int, int] | None:
    """How far into each the two are alike again: the nearest such place, else where `one` ends. None where not even so.

    `one` is the rest of a call that ended; `other` goes on after it.
    """
    grams, others = _grams(one[:_LOOKED_AT]), _grams(other[:_LOOKED_AT])
    _, left, right = np.intersect1d(grams, others, return_indices=True)
    if len(left):
        nearest = int(np.argmin(left + right))
        return int(left[nearest]), int(right[nearest])
    if len(one) == 0:
        return None
    # The end of a turn is an id of its own, with which templates and models alike close an answer.
    ends = np.flatnonzero(other[:_LOOKED_AT] == one[-1])
    return (len(one) - 1, int(ends[0])) if len(ends) else None


def _grams(ids: Ids) -> npt.NDArray[np.uint64]:
    """A hash of each run of ids that counts as alike. Wraps around, as hashes do."""
    runs = len(ids) - _ALIKE + 1
    if runs <= 0:
        return np.empty(0, np.uint64)
    wide = ids.astype(np.uint64)
    hashed = np.zeros(runs, np.uint64)
    for offset, prime in enumerate(_PRIMES):
        hashed = (hashed ^ (wide[offset : offset + runs] + np.uint64(1))) * prime
    return hashed
