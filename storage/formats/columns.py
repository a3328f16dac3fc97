"""Rows as an Arrow record batch of a schema: arrays of numbers go over whole, not number by number. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from storage.formats.row import Row
from storage.formats.schemas import is_json

_BATCH_BYTES: Final = 8 * 1024 * 1024


def record_batch(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """A row has a value for every column, None where nothing was told, and nothing else. Raises KeyError."""
    columns = [_column([row[field.name] for row in rows], field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    of = field.type
    if pa.types.is_list(of) and pa.types.is_primitive(of.value_type):
        return _lists(values, of)
    fitting = _fitting(field)
    return pa.array(values if fitting is None else [fitting(value) for value in values], of)


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


def _fitting(field: pa.Field) -> Callable[[Any], Any] | None:
    """What makes a value one that pyarrow takes, with JSON's text in it. None where pyarrow takes all as they are."""
    if is_json(field):
        return _text
    of = field.type
    if pa.types.is_struct(of):
        inner = {child.name: fitting for child in of if (fitting := _fitting(child)) is not None}
        return partial(_struct, inner) if inner else None
    if pa.types.is_list(of):
        each = _fitting(of.value_field)
        return None if each is None else partial(_list, each)
    return None


def _struct(inner: Mapping[str, Callable[[Any], Any]], value: Any) -> Any:
    return None if value is None else value | {name: fitting(value[name]) for name, fitting in inner.items()}


def _list(fitting: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else [fitting(each) for each in value]


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def batches(rows: Sequence[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
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
