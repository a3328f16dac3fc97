"""The flat form with its arrays packed: what `gateway.client` reads, in a sixth of the time that lists of numbers take.

A row is the flat one, but for `token_ids`, `mask` and `logprobs`: these are the bytes of the arrays (little-endian
int32, int8 and float32), which JSON has as base64. A logprob that nobody told is NaN here too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from storage.formats import flat
from storage.formats.row import Row
from storage.samples.sample import Sample

ARRAYS: Final = {"token_ids": np.dtype("<i4"), "mask": np.dtype("<i1"), "logprobs": np.dtype("<f4")}


def row(sample: Sample) -> Row:
    told = flat.row(sample)
    return told | {name: told[name].astype(dtype, copy=False).tobytes() for name, dtype in ARRAYS.items()}
