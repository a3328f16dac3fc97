"""A trace as one row: the schema's own names, its choices inside, its logprobs exact, its request as it came.

One row a trace, not one a choice: a call that failed has no choice and is a trace none the less, and a prompt that n
choices share stands once. `unnest(choices)` (DuckDB) or `explode` (polars, pandas) makes a row for each choice.

In Arrow and Parquet, `request.body` is binary, for nobody checked that it is text (`decode(request.body)` in DuckDB);
headers, sampling parameters, harness and metadata are JSON text, and so are an error's `code` and a `stop_reason`
where they are numbers. As JSON a trace is what the API says it is.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Final

import msgspec

from adapters.schema import Choice, Trace
from adapters.token_ids import TokenIds
from storage.formats.row import Row

_TRACE: Final = tuple(field.name for field in fields(Trace))
_CHOICE: Final = tuple(field.name for field in fields(Choice))
_KEPT: Final = (bytes, datetime)


def row(trace: Trace) -> Row:
    """Ids as int32 arrays that share the trace's memory."""
    told = {name: _plain(getattr(trace, name)) for name in _TRACE if name != "choices"}
    return told | {"choices": [{name: _plain(getattr(choice, name)) for name in _CHOICE} for choice in trace.choices]}


def _plain(value: object) -> object:
    if isinstance(value, TokenIds):
        return value.numpy()
    if value is None or isinstance(value, str | int | float | datetime):
        return value
    return msgspec.to_builtins(value, builtin_types=_KEPT)
