"""`/api/traces` and a session's own: what was recorded, filtered, in pages or as JSON lines."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response

from adapters.schema import Dialect, Fidelity, Purpose, Status, Trace
from gateway.api.encoding import Selection
from gateway.api.inputs import Cursor, Limit, Strict, Timestamp, Wait
from gateway.api.listing import JSON, JSON_LINES, accepted, complete_page, traces_page, with_news
from gateway.api.parts import ApiParts, Parts
from gateway.api.problem import TraceNotFound
from gateway.api.scoped import needs
from gateway.api.trace_file import trace_file
from gateway.sessions import check_session_id
from storage.records import PAGE_LIMIT, TraceQuery

router = APIRouter(tags=["traces"], dependencies=[needs("trace:read")])

_LINES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {JSON_LINES: {"schema": {"type": "string", "description": "A trace a line, of all pages."}}}}
}


class Fields(Strict):
    """Names with commas between: a trace's own (`request`), or of its choices (`choices.logprobs`)."""

    fields: str | None = None
    exclude: str | None = None

    def selection(self) -> Selection:
        return Selection.of(self.fields, self.exclude)


class SessionTraceFilters(Fields):
    """A field that is left out does not filter."""

    model: str | None = None
    engine: str | None = None
    backend: str | None = None
    status: Status | None = None
    fidelity: Fidelity | None = None
    weight_version: str | None = None
    purpose: Purpose | None = None
    dialect: Dialect | None = None
    since: Timestamp | None = None
    until: Timestamp | None = None
    limit: Limit = PAGE_LIMIT
    cursor: Cursor | None = None
    wait: Wait = 0


class TraceFilters(SessionTraceFilters):
    session_id: str | None = None
    run_id: str | None = None
    group_id: str | None = None


@dataclass(frozen=True, slots=True)
class TracePage:
    items: tuple[Trace, ...]
    next: str | None
    complete: bool


@router.get("/traces", response_model=TracePage, responses=_LINES)
async def list_traces(filters: Annotated[TraceFilters, Query()], request: Request, parts: Parts) -> Response:
    """Traces by time. With `accept: application/x-ndjson` all pages, or `limit` traces, as JSON lines."""
    return await _list(filters, filters.session_id, request, parts)


@router.get("/sessions/{session_id}/traces", response_model=TracePage, responses=_LINES)
async def list_session_traces(
    session_id: Annotated[str, Path()],
    filters: Annotated[SessionTraceFilters, Query()],
    request: Request,
    parts: Parts,
) -> Response:
    """A session's traces by turn."""
    await parts.sessions.get(check_session_id(session_id))
    return await _list(filters, session_id, request, parts)


@router.get("/traces/{trace_id}", response_model=Trace)
async def read_trace(
    trace_id: Annotated[str, Path(max_length=128)], fields: Annotated[Fields, Query()], parts: Parts
) -> Response:
    selection = fields.selection()
    trace = await parts.store.trace(trace_id)
    if trace is None:
        raise TraceNotFound(f"There is no trace {trace_id!r}.")
    return Response(await asyncio.to_thread(selection.encode, trace), media_type=JSON)


async def _list(filters: SessionTraceFilters, session_id: str | None, request: Request, parts: ApiParts) -> Response:
    selection = filters.selection()
    asked = filters.model_dump(exclude={"fields", "exclude", "wait"}) | {"session_id": session_id}
    query = TraceQuery(**asked, payloads=selection.has_payload)
    if JSON_LINES in accepted(request):
        if filters.wait:
            first = replace(query, limit=1)
            await with_news(lambda: parts.store.traces(first), filters.wait, request, parts)
        total = filters.limit if "limit" in filters.model_fields_set else None
        return await trace_file(parts.store, query, "jsonl", total, selection, complete=await parts.complete())
    page, complete = await complete_page(lambda: parts.store.traces(query), filters.wait, request, parts)
    return traces_page(page, selection, complete=complete)
