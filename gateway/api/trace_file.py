"""Traces as a file: JSON lines as `/api/traces` tells them, or Parquet and Arrow of the same columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from starlette.responses import Response

from adapters.schema import Trace
from gateway.api.encoding import Selection
from gateway.api.files import COMPLETE, NEXT_CURSOR, WORDS
from gateway.api.streaming import file_of, streamed
from storage.formats import traces as flat
from storage.formats.writers import FileFormat, encoder_of
from storage.records import Page, TraceQuery

# What is read at once. More would be read for nothing where the client goes; less would undo the same bases anew.
_PAGE: Final = 256
_PAGE_BYTES: Final = 2 * 1024 * 1024


class TraceStore(Protocol):
    async def traces(self, query: TraceQuery) -> Page[Trace]: ...
    async def traces_end(self, query: TraceQuery) -> str | None: ...


async def trace_file(
    store: TraceStore,
    query: TraceQuery,
    file_format: FileFormat,
    limit: int | None,
    selection: Selection | None = None,
    *,
    complete: bool,
) -> Response:
    """Of all traces from the cursor on, or of the next `limit`. `selection` is of the fields of JSON lines."""
    encoder = encoder_of(file_format, "traces")
    fields = selection or Selection()

    def lines(traces: Sequence[Trace]) -> bytes:
        return b"".join(line + b"\n" for line in fields.encode_all(traces))

    def rows(traces: Sequence[Trace]) -> bytes:
        return encoder.add([flat.row(trace) for trace in traces])

    headers = {COMPLETE: WORDS[complete]}
    reader = _Reader(store, query)
    if limit is not None:
        # What is recorded while the part is read must not push its last ones out, behind the cursor that was told.
        end = await store.traces_end(replace(query, limit=limit))
        headers |= {} if end is None else {NEXT_CURSOR: end}
        reader = _Reader(store, replace(query, end=end), ended=end is None)
    encoded = lines if file_format == "jsonl" else rows
    return await streamed(file_of(reader, encoder, encoded), encoder.media_type, headers)


@dataclass(slots=True)
class _Reader:
    """Page after page. It keeps nothing of what it has given."""

    store: TraceStore
    query: TraceQuery
    ended: bool = False

    async def __call__(self) -> tuple[Trace, ...]:
        if self.ended:
            return ()
        page = await self.store.traces(replace(self.query, limit=_PAGE, page_bytes=_PAGE_BYTES))
        self.query, self.ended = replace(self.query, cursor=page.next), page.next is None
        return page.items
