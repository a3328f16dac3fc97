"""Routed experts of a whole sample, put together from what the engine told of each call.

An engine tells a row for each position that went through the model: of a call's prompt and completion all but the last
id, which was sampled and never read. So a sample of N ids has N−1 rows. A position keeps what the first call that read
it told, for that is what sampled from it; a later call had it in its cache, or read it anew.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from adapters.schema import RoutedExperts
from storage.samples.sample import Sample

Experts: TypeAlias = npt.NDArray[Any]


def routed_experts(sample: Sample) -> Experts | None:
    """(N−1, layers, top-k) in the engine's own dtype. None where a position is told by nobody, or not as such an array.

    What the engine was asked to leave out at a call's begin an earlier call may have told.
    """
    parts: list[Experts] = []
    told = 0
    for span in sample.spans:
        rows = None if span.routed_experts is None else _array(span.routed_experts)
        if rows is None:
            return None
        rows = rows[: span.end - 1] if len(rows) == span.end else rows  # Some tell the last id's too.
        begin = span.end - 1 - len(rows)
        if not 0 <= begin <= told or (parts and (rows.shape[1:], rows.dtype) != (parts[0].shape[1:], parts[0].dtype)):
            return None
        parts.append(rows[told - begin :])
        told = span.end - 1
    return np.concatenate(parts) if parts and told == len(sample.token_ids) - 1 else None


def _array(told: RoutedExperts) -> Experts | None:
    if told.shape is None or told.dtype is None or len(told.shape) != 3:
        return None
    try:
        array = np.frombuffer(told.data, np.dtype(told.dtype)).reshape(told.shape)
    except (TypeError, ValueError):
        return None
    return array if array.dtype.kind in "iu" else None
