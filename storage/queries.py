"""Traces as they are asked for: by id, or a page at a time, a page being bounded in items and in bytes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
from sqlalchemy import Connection, Select, or_, select, tuple_

from adapters.schema import Trace
from storage import codec, cursors
from storage.arrays import BadPayload
from storage.errors import CorruptTrace
from storage.payloads import Payloads
from storage.records import Page, TraceQuery
from storage.sessions import labelled
from storage.tables import AnyRow, sessions, traces

_log: Final = logging.getLogger(__name__)
_Turn = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]

_ROWS_AHEAD: Final = 16
_PLAIN: Final = tuple(traces.c[name] for name in codec.PLAIN_COLUMNS)


def get(db: Connection, trace_id: str, session_id: str | None) -> Trace | None:
    """Raises CorruptTrace."""
    wanted = select(traces).where(traces.c.trace_id == trace_id)
    if session_id is not None:
        wanted = wanted.where(traces.c.session_id == session_id)
    row = db.execute(wanted.limit(1)).first()
    return None if row is None else decode(row, Payloads(db))[0]


def latest(db: Connection, session_id: str, limit: int) -> list[Trace]:
    """By turn, the latest first."""
    wanted = select(traces).where(traces.c.session_id == session_id)
    return list(read(db, wanted.order_by(traces.c.turn.desc()).limit(limit)))


def session_id_of(db: Connection, trace_id: str) -> str | None:
    return db.scalar(select(traces.c.session_id).where(traces.c.trace_id == trace_id).limit(1))


def page(db: Connection, query: TraceQuery) -> Page[Trace]:
    """Raises BadCursor."""
    read_row = _Reading(db).trace if query.payloads else _without_payload
    items: list[Trace] = []
    size = 0
    # One row at a time, so that rows beyond the page's bytes are never read.
    with db.execute(_select(query)) as rows:
        for row in rows:
            if len(items) == query.limit or size >= query.page_bytes:
                return Page(tuple(items), _cursor(query, items[-1]))
            trace, trace_bytes = read_row(row)
            items.append(trace)
            size += trace_bytes
    return Page(tuple(items))


def end(db: Connection, query: TraceQuery) -> str | None:
    """The cursor behind the query's `limit` first traces, of which nothing else is read; None where there is none.

    Raises BadCursor.
    """
    c = traces.c
    found = _select(query).with_only_columns(c.trace_id, c.session_id, c.turn).limit(query.limit)
    rows = db.execute(found).all()
    return _cursor(query, rows[-1]) if rows else None


def read(db: Connection, wanted: Select[Any]) -> Iterator[Trace]:
    """The traces that a selection of whole rows finds."""
    reading = _Reading(db)
    return (reading.trace(row)[0] for row in db.execute(wanted))


def decode(row: AnyRow, payloads: Payloads) -> tuple[Trace, int]:
    """The trace of a row of `traces`, and the bytes of its payload. Raises CorruptTrace."""
    payload = payloads.of(row)
    try:
        return codec.trace(row._asdict(), payload), len(payload)
    except BadPayload as exc:
        raise CorruptTrace(row.session_id, row.trace_id, str(exc)) from exc


def _without_payload(row: AnyRow) -> tuple[Trace, int]:
    return codec.without_payload(row._asdict()), 0


class _Reading:
    """Several traces in one transaction, of which one that can't be read back does not stop the others.

    It is given as far as its columns tell of it; the first is logged.
    """

    def __init__(self, db: Connection) -> None:
        self._payloads = Payloads(db)
        self._logged = False

    def trace(self, row: AnyRow) -> tuple[Trace, int]:
        """As `decode`."""
        try:
            return decode(row, self._payloads)
        except CorruptTrace as exc:
            if not self._logged:
                _log.error("%s; `rollout-gateway db check` names all such", exc)
                self._logged = True
            return codec.unreadable(row._asdict(), exc.reason), 0


def _select(query: TraceQuery) -> Select[Any]:
    c = traces.c
    # A driver that fetches a whole result at once would hold the bytes of a page of the largest rows.
    wanted = select(*(c if query.payloads else _PLAIN)).limit(query.limit + 1)
    wanted = wanted.execution_options(stream_results=True, max_row_buffer=_ROWS_AHEAD)
    for column, value in (
        (c.session_id, query.session_id),
        (c.engine, query.engine),
        (c.backend, query.backend),
        (c.status, query.status),
        (c.fidelity, query.fidelity),
        (c.weight_version, query.weight_version),
        (c.purpose, query.purpose),
        (c.dialect, query.dialect),
    ):
        if value is not None:
            wanted = wanted.where(column == value)
    if query.model is not None:
        wanted = wanted.where(or_(c.model == query.model, c.served_model == query.model))
    if query.since is not None:
        wanted = wanted.where(c.started_at >= query.since)
    if query.until is not None:
        wanted = wanted.where(c.started_at < query.until)
    if query.run_id is not None or query.group_id is not None:
        wanted = wanted.where(c.session_id.in_(_sessions_of(query)))
    return _after(wanted, query)


def _sessions_of(query: TraceQuery) -> Select[tuple[str]]:
    return labelled(select(sessions.c.session_id), query.run_id, query.group_id)


def _after(wanted: Select[Any], query: TraceQuery) -> Select[Any]:
    """In the list's order, from the cursor on, to its end."""
    c = traces.c
    place = (c.trace_id, c.session_id) if query.session_id is None else (c.turn, c.trace_id)
    if query.cursor is not None:
        wanted = wanted.where(tuple_(*place) > tuple_(*_place(query, query.cursor)))
    if query.end is not None:
        wanted = wanted.where(tuple_(*place) <= tuple_(*_place(query, query.end)))
    return wanted.order_by(*place)


def _place(query: TraceQuery, cursor: str) -> tuple[object, ...]:
    if query.session_id is None:
        return cursors.unpack(cursor, tuple[str, str])
    return cursors.unpack(cursor, tuple[_Turn, str])


def _cursor(query: TraceQuery, last: Trace | AnyRow) -> str:
    if query.session_id is not None:
        return cursors.pack((last.turn, last.trace_id))
    return cursors.pack((last.trace_id, last.session_id))
