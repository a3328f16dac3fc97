"""Rows as the bytes of a file, as they come: JSON lines, Parquet, an Arrow stream. No more is held than a row group.

    encoder = encoder_of("parquet", "flat")
    sink.write(encoder.start())
    for samples in pages:
        sink.write(encoder.add([flat.row(sample) for sample in samples]))
    sink.write(encoder.end())

Encoding takes processor time and never waits: an event loop leaves it to a thread. Parquet and Arrow need pyarrow, the
extra `export`, which is imported no sooner than it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol, TypeAlias

import msgspec
import numpy as np

from storage.formats.row import Row

FileFormat: TypeAlias = Literal["jsonl", "parquet", "arrow"]


class CannotWrite(Exception):
    """Rows of that kind can't be had in that format here. The message says what to do."""


class Encoder(Protocol):
    """Called as `start`, any number of `add`s, `end`; all that they give, in order, is the file."""

    @property
    def media_type(self) -> str: ...

    def start(self) -> bytes: ...
    def add(self, rows: Sequence[Row]) -> bytes:
        """May give nothing yet."""
        ...

    def end(self) -> bytes: ...


def encoder_of(file_format: FileFormat, rows: Literal["flat", "traces"] = "flat") -> Encoder:
    """Raises CannotWrite where pyarrow is needed and missing."""
    if file_format == "jsonl":
        return JsonLines()
    try:
        from storage.formats import arrow_stream, parquet, schemas
    except ImportError as exc:
        raise CannotWrite(f'{file_format} needs pyarrow: pip install "rollout-gateway[export]"') from exc
    schema = schemas.FLAT if rows == "flat" else schemas.TRACES
    return parquet.Parquet(schema) if file_format == "parquet" else arrow_stream.ArrowStream(schema)


class JsonLines:
    """A line for each row. NaN is null, bytes are base64."""

    media_type: Final = "application/x-ndjson"

    def start(self) -> bytes:
        return b""

    def add(self, rows: Sequence[Row]) -> bytes:
        return b"".join(encode_row(row) + b"\n" for row in rows)

    def end(self) -> bytes:
        return b""


def encode_row(row: Row) -> bytes:
    return msgspec.json.encode(row, enc_hook=_listed)


def _listed(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise NotImplementedError(f"{type(value).__name__} is not part of a row")
