"""Rows as an Arrow record batch of a schema: arrays of numbers go over whole, not number by number. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

_BATCH_BYTES: Final = 8 * 1024 * 1024


def record_batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """A row has a value for every column, None where nothing was told, and nothing else. Raises KeyError."""
    columns = [_column([row[field.name] for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: list[Any], of: pa.DataType) -> pa.Array:
    if pa.types.is_list(of) and pa.types.is_primitive(of.value_type):
        return _lists(values, of)
    return pa.array([_fitting(value, of) for value in values], of)


def _lists(values: list[Any], of: pa.DataType) -> pa.Array:
    """Their numbers one after the other, and where each list begins. A float's NaN becomes a null."""
    dtype = of.value_type.to_pandas_dtype()
    nulls = [value is None for value in values]
    arrays = [np.asarray(() if value is None else value, dtype) for value in values]
    offsets = np.zeros(len(arrays) + 1, np.int32)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    numbers = np.concatenate(arrays) if arrays else np.empty(0, dtype)
    untold = np.isnan(numbers) if pa.types.is_floating(of.value_type) else None
    return pa.ListArray.from_arrays(
        pa.array(offsets),
        pa.array(numbers, of.value_type, mask=untold if untold is not None and untold.any() else None),
        of,
        mask=pa.array(nulls) if any(nulls) else None,
    )


def _fitting(value: Any, of: pa.DataType) -> Any:
    """The value as pyarrow takes it: what stands in a column of text and is none becomes its JSON text."""
    if value is None:
        return None
    if pa.types.is_struct(of):
        return {field.name: _fitting(value[field.name], field.type) for field in of}
    if pa.types.is_list(of) and pa.types.is_nested(of.value_type):
        return [_fitting(each, of.value_type) for each in value]
    if pa.types.is_string(of) and not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    return value


def batches(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in batches of no more than a few megabytes each, but for a row that is larger alone."""
    begin, size = 0, 0
    for end, row in enumerate(rows):
        weight = _weight(row)
        if begin < end and size + weight > _BATCH_BYTES:
            yield record_batch(rows[begin:end], schema)
            begin, size = end, 0
        size += weight
    if begin < len(rows):
        yield record_batch(rows[begin:], schema)


def _weight(value: Any) -> int:
    """About how many bytes it takes."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_weight, value.values()))
    if isinstance(value, Sequence):
        # Of a list of numbers none is asked for its own.
        return sum(map(_weight, value)) if value and not isinstance(value[0], int | float | None) else 8 * len(value)
    return 8
