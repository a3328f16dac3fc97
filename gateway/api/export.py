"""`/api/export`: all that was recorded, or a part of it, as one file that is made while it is read."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self, TypeAlias, get_args

from fastapi import APIRouter, Query, Response
from pydantic import BeforeValidator, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from adapters.schema import Dialect, EndedStatus, Fidelity, Status
from gateway.api.files import CONTENT, NEXT_CURSOR, sample_encoder, sample_file
from gateway.api.inputs import Limit, separated
from gateway.api.parts import Parts
from gateway.api.rows import SampleRows, Walk
from gateway.api.sample_filters import EndedFilters
from gateway.api.scoped import needs
from gateway.api.trace_file import trace_file
from storage.formats.shapes import SHAPES
from storage.formats.writers import FileFormat
from storage.records import EndedQuery, TraceQuery

router = APIRouter(tags=["samples"], dependencies=[needs("trace:read")])

_ENDED: Final[tuple[EndedStatus, ...]] = get_args(EndedStatus)
_TRACE: Final[tuple[Status, ...]] = get_args(Status)
_ANY_STATUS: Final = WithJsonSchema({"type": "array", "items": {"type": "string", "enum": [*_ENDED, *_TRACE]}})
_OF_BOTH: Final = frozenset(
    ("of", "format", "limit", "cursor", "session_id", "run_id", "group_id", "status", "purpose", "since", "until")
)
_OF_TRACES: Final = frozenset(("model", "engine", "backend", "fidelity", "weight_version", "dialect"))

_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The file. What fails on the way breaks the connection off: a file with an end is whole.",
        "content": CONTENT,
        "headers": {
            NEXT_CURSOR: {
                "description": "With `limit`: the `cursor` of what follows. Missing where nothing is left.",
                "schema": {"type": "string"},
            }
        },
    }
}

AnyStatus: TypeAlias = Annotated[tuple[EndedStatus | Status, ...], BeforeValidator(separated), _ANY_STATUS]


class ExportFilters(EndedFilters):
    """Those of `/api/samples`, or with `of=traces` those of `/api/traces`."""

    of: Literal["samples", "traces"] = "samples"
    format: FileFormat = "jsonl"
    model: str | None = None
    engine: str | None = None
    backend: str | None = None
    fidelity: Fidelity | None = None
    weight_version: str | None = None
    dialect: Dialect | None = None
    status: AnyStatus = ()  # type: ignore[assignment]
    """Samples: `finished` unless said otherwise. Traces: any one."""
    limit: Limit | None = None
    """A part of so many sessions, or traces; all without it."""

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        for name in sorted(self.model_fields_set - _OF_BOTH):
            if (name in _OF_TRACES) != (self.of == "traces"):
                kind = "traces" if name in _OF_TRACES else "samples"
                raise PydanticCustomError("other_kind", "{name} is for of={kind}", {"name": name, "kind": kind})
        known = _TRACE if self.of == "traces" else _ENDED
        wrong = [status for status in self.status if status not in known]
        if wrong:
            told = {"wrong": ", ".join(wrong), "of": self.of, "known": ", ".join(known)}
            raise PydanticCustomError("other_status", "status: of={of} it is {known}, not {wrong}", told)
        if self.of == "traces" and len(self.status) > 1:
            raise PydanticCustomError("one_status", "status: of traces one can be asked for, or all")
        return self

    def ended(self) -> EndedQuery:
        return self.query() if self.status else self.model_copy(update={"status": ("finished",)}).query()

    def traces(self) -> TraceQuery:
        told = self.model_dump(include=set(TraceQuery.__dataclass_fields__) - {"limit", "status", "purpose", "end"})
        purpose = None if self.purpose == "any" else self.purpose
        status = next((status for status in _TRACE if status in self.status), None)
        return TraceQuery(**told, purpose=purpose, status=status)


@router.get("/export", response_class=Response, responses=_ANSWER)
async def export(filters: Annotated[ExportFilters, Query()], parts: Parts) -> Response:
    """Samples of ended sessions, or traces, as JSON lines, Parquet or an Arrow stream, in bounded memory.

    To be able to go on after a break ask for parts: with `limit` the header `x-next-cursor` names the next part's
    `cursor`, before the file begins. A part that broke off is asked for again.
    """
    if filters.of == "traces":
        complete = await parts.complete()
        return await trace_file(parts.store, filters.traces(), filters.format, filters.limit, complete=complete)
    encoder = sample_encoder(filters.format, filters.shape)
    rows = SampleRows(SHAPES[filters.shape], filters.options())
    walk = Walk(parts.store, filters.ended())
    return await sample_file(walk, rows, encoder, filters.limit, complete=await parts.complete())
