"""Groups: the sessions that answer one prompt, counted by how they stand."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, case, func, literal, or_, select, tuple_

from storage import cursors
from storage.records import Group, GroupQuery, Page
from storage.sessions import labelled
from storage.tables import sessions
from storage.texts import Text

_c: Final = sessions.c
_START: Final = (0, "", "")
_last: Final = func.coalesce(func.max(_c.ended_seq), 0)
# A run that nobody named is none in an answer, and in a cursor the empty name, which no run has.
_run: Final = func.coalesce(_c.run_id, "")


def page(db: Connection, query: GroupQuery) -> Page[Group]:
    """Raises BadCursor."""
    after = _START if query.cursor is None else cursors.unpack(query.cursor, tuple[cursors.Place, str, str])
    rows = db.execute(_select(query, after)).all()
    last = (rows[-1].last, rows[-1].run_id or "", rows[-1].group_id) if rows else after
    return Page(
        tuple(
            Group(
                run_id=row.run_id,
                group_id=row.group_id,
                size=row.size,
                sessions=row.sessions,
                open=row.sessions - row.finished - row.failed - row.aborted,
                finished=row.finished,
                failed=row.failed,
                aborted=row.aborted,
                complete=row.size is not None and row.finished + row.failed + row.aborted >= row.size,
            )
            for row in rows
        ),
        cursors.pack(last),
    )


def size(asked: int | None) -> ColumnElement[int]:
    """How many sessions a group is to have: as one of them declares, else as asked; null where neither says."""
    declared = func.max(_c.group_size)
    return declared if asked is None else func.coalesce(declared, asked)


def is_complete(asked: int | None) -> ColumnElement[bool]:
    return count(_c.status != "open") >= size(asked)


def count(of: ColumnElement[bool]) -> ColumnElement[int]:
    """Of a group's sessions, those of which this is true."""
    return func.count(case((of, 1)))


def _select(query: GroupQuery, after: tuple[int, str, str]) -> Select[*tuple[Any, ...]]:
    statuses = (count(_c.status == status).label(status) for status in ("finished", "failed", "aborted"))
    wanted = (
        select(
            _c.run_id,
            _c.group_id,
            _last.label("last"),
            size(query.group_size).label("size"),
            func.count().label("sessions"),
            *statuses,
        )
        .where(_c.group_id.is_not(None))
        .group_by(_c.run_id, _c.group_id)
        .having(_is_after(after))
        .order_by(_last, _run, _c.group_id)
        .limit(query.limit)
    )
    if after[0] > 0:
        # Only those that got further are counted at all.
        wanted = wanted.where(_c.group_id.in_(select(_c.group_id).where(_c.ended_seq > after[0])))
    wanted = labelled(wanted, query.run_id, query.group_id)
    if query.complete is not None:
        complete = func.coalesce(is_complete(query.group_size), False)
        wanted = wanted.having(complete if query.complete else ~complete)
    return wanted


def _is_after(after: tuple[int, str, str]) -> ColumnElement[bool]:
    last, run_id, group_id = after
    if last > 0:  # It is one session's, so no other group has it.
        return _last > last
    return or_(_last > 0, tuple_(_run, _c.group_id) > tuple_(literal(run_id, Text), literal(group_id, Text)))
