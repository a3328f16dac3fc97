"""The `.npy` array that vLLM tells routed experts in: its header read without pickle, its bytes kept."""

from __future__ import annotations

import ast
import base64
import binascii
import math
from typing import Final

import numpy as np

from adapters.schema import RoutedExperts

_MAGIC: Final = b"\x93NUMPY"
_MAX_HEADER: Final = 10_000


def routed_experts(encoded: str) -> RoutedExperts | None:
    """From base64 of an `.npy` file. Without a header that can be read the bytes stand alone; None if not base64."""
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    try:
        return _array(data)
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        return RoutedExperts(data, None, None)


def _array(data: bytes) -> RoutedExperts:
    """See https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html for the format. Raises ValueError."""
    if not data.startswith(_MAGIC) or len(data) < 10:
        raise ValueError("not an .npy file")
    size_bytes = 2 if data[6] == 1 else 4
    start = 8 + size_bytes
    size = int.from_bytes(data[8:start], "little")
    if size > _MAX_HEADER or start + size > len(data):
        raise ValueError("the header is cut")
    header = ast.literal_eval(data[start : start + size].decode("latin-1").strip())
    dtype = np.dtype(header["descr"])
    shape = tuple(int(length) for length in header["shape"])
    body = data[start + size :]
    if dtype.hasobject or min(shape, default=0) < 0 or len(body) != dtype.itemsize * math.prod(shape):
        raise ValueError("not a plain array of that shape")
    if header["fortran_order"]:
        body = np.frombuffer(body, dtype).reshape(shape, order="F").tobytes()
    return RoutedExperts(body, shape, dtype.str)
