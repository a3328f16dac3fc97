"""Rows as an Arrow IPC stream: record batches that a reader takes as they arrive. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from storage.formats.columns import batches
from storage.formats.outlet import Outlet
from storage.formats.row import Row


class ArrowStream:
    media_type: Final = "application/vnd.apache.arrow.stream"

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._outlet = Outlet()
        self._stream: Any = None

    def start(self) -> bytes:
        # Not compressed: some readers of the format can't undo it, and HTTP and file systems have their own ways.
        self._stream = pa.ipc.new_stream(self._outlet, self._schema)
        return self._outlet.taken()

    def add(self, rows: Sequence[Row]) -> bytes:
        for batch in batches(rows, self._schema):
            self._stream.write_batch(batch)
        return self._outlet.taken()

    def end(self) -> bytes:
        self._stream.close()
        return self._outlet.taken()
