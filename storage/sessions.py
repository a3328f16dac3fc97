"""Sessions as rows: made, read, changed, listed, and deleted for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVarTuple

import msgspec
from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    delete,
    exists,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import IntegrityError

from adapters.schema import Purpose, Reward, Session, SessionStatus
from storage import cursors, places, rewards, tables
from storage.database import Clock
from storage.errors import SessionDeleted, SessionExists, SessionNotFound
from storage.records import Page, SessionChanges, SessionQuery
from storage.tables import AnyRow
from storage.texts import Text

Columns = TypeVarTuple("Columns")
_Instant = Annotated[datetime, msgspec.Meta(tz=True)]

_COLUMNS: Final = (
    "session_id",
    "run_id",
    "group_id",
    "group_size",
    "status",
    "created_at",
    "finished_at",
    "capture",
    "purpose",
    "attempt",
    "backend",
    "implicit",
)
"""The fields of a session that are columns of the same name; the rest is in `details`."""


class _Details(msgspec.Struct, frozen=True, omit_defaults=True):
    metadata: dict[str, Any] = {}
    rewards: tuple[Reward, ...] = ()
    sampling: dict[str, Any] | None = None
    budgets: dict[str, Any] | None = None


_decode: Final = msgspec.json.Decoder(_Details).decode


def to_row(session: Session) -> dict[str, Any]:
    """The columns that a session's fields are; not `ended_seq` and `key_hash`."""
    details = _Details(
        metadata=dict(session.metadata),
        rewards=session.rewards,
        sampling=None if session.sampling is None else dict(session.sampling),
        budgets=None if session.budgets is None else dict(session.budgets),
    )
    return {name: getattr(session, name) for name in _COLUMNS} | {"details": msgspec.json.encode(details)}


def from_row(row: AnyRow) -> Session:
    details = _decode(row.details)
    return Session(
        **{name: getattr(row, name) for name in _COLUMNS},
        metadata=details.metadata,
        rewards=details.rewards,
        sampling=details.sampling,
        budgets=details.budgets,
    )


def get(db: Connection, session_id: str) -> Session | None:
    row = db.execute(select(tables.sessions).where(tables.sessions.c.session_id == session_id)).first()
    return None if row is None else from_row(row)


# One row always: that of the session, its tombstone's, or one of nulls.
_ASKED: Final = select(bindparam("asked", type_=Text).label("session_id")).subquery()
FOUND: Final = select(
    tables.tombstones.c.deleted_at, *(tables.sessions.c[name] for name in (*_COLUMNS, "details"))
).select_from(
    _ASKED.outerjoin(tables.sessions, tables.sessions.c.session_id == _ASKED.c.session_id).outerjoin(
        tables.tombstones, tables.tombstones.c.session_id == _ASKED.c.session_id
    )
)


def found(session_id: str, row: AnyRow) -> Session | None:
    """What the row of `FOUND` about this session says. Raises SessionDeleted."""
    if row.deleted_at is not None:
        raise SessionDeleted(session_id)
    return None if row.session_id is None else from_row(row)


def by_key(db: Connection, key_hash: bytes) -> Session | None:
    row = db.execute(select(tables.sessions).where(tables.sessions.c.key_hash == key_hash)).first()
    return None if row is None else from_row(row)


def is_tombstoned(db: Connection, session_id: str) -> bool:
    return bool(db.scalar(select(exists().where(tables.tombstones.c.session_id == session_id))))


def page(db: Connection, query: SessionQuery) -> Page[Session]:
    """Raises BadCursor."""
    c = tables.sessions.c
    wanted = select(tables.sessions).order_by(c.created_at, c.session_id).limit(query.limit + 1)
    wanted = labelled(wanted, query.run_id, query.group_id, query.purpose)
    if query.status is not None:
        wanted = wanted.where(c.status == query.status)
    if query.implicit is not None:
        wanted = wanted.where(c.implicit == query.implicit)
    if query.since is not None:
        wanted = wanted.where(c.created_at >= query.since)
    if query.until is not None:
        wanted = wanted.where(c.created_at < query.until)
    if query.cursor is not None:
        created_at, session_id = cursors.unpack(query.cursor, tuple[_Instant, str])
        last = tuple_(literal(created_at, tables.UtcDateTime), literal(session_id, Text))
        wanted = wanted.where(tuple_(c.created_at, c.session_id) > last)
    found = [from_row(row) for row in db.execute(wanted)]
    items = tuple(found[: query.limit])
    more = len(found) > query.limit
    return Page(items, cursors.pack((items[-1].created_at, items[-1].session_id)) if more else None)


def labelled(
    wanted: Select[*Columns], run_id: str | None, group_id: str | None, purpose: Purpose | None = None
) -> Select[*Columns]:
    """Of the sessions with these labels; a null one does not filter, and an empty `run_id` is that of no run.

    Calls are for training unless somebody says otherwise; so is a session that does not.
    """
    c = tables.sessions.c
    if run_id is not None:
        wanted = wanted.where(c.run_id == run_id if run_id else c.run_id.is_(None))
    if group_id is not None:
        wanted = wanted.where(c.group_id == group_id)
    if purpose is not None:
        same = c.purpose == purpose
        wanted = wanted.where(or_(same, c.purpose.is_(None)) if purpose == "train" else same)
    return wanted


def create(db: Connection, session: Session, key_hash: bytes | None) -> Session:
    """Raises SessionExists, SessionDeleted."""
    if is_tombstoned(db, session.session_id):
        raise SessionDeleted(session.session_id)
    if get(db, session.session_id) is not None:
        raise SessionExists(session.session_id)
    try:
        db.execute(insert(tables.sessions), to_row(session) | {"key_hash": key_hash})
    except IntegrityError as exc:  # Another gateway has made it since.
        raise SessionExists(session.session_id) from exc
    places.give(db, session)
    return session


def _held(db: Connection, session_id: str) -> Session:
    """The session, which nobody else changes until this transaction ends. Raises SessionNotFound, SessionDeleted."""
    wanted = select(tables.sessions).where(tables.sessions.c.session_id == session_id)
    row = db.execute(wanted.with_for_update()).first()
    if row is None:
        raise SessionDeleted(session_id) if is_tombstoned(db, session_id) else SessionNotFound(session_id)
    return from_row(row)


def _put(db: Connection, before: Session, session: Session) -> Session:
    """Write what has become of one that is held."""
    of_it = tables.sessions.c.session_id == session.session_id
    db.execute(update(tables.sessions).where(of_it).values(to_row(session)))
    places.give(db, session, before)
    return session


def change(db: Connection, session_id: str, changes: SessionChanges) -> Session:
    """Raises SessionNotFound, SessionDeleted."""
    before = _held(db, session_id)
    return _put(db, before, replace(before, **changes))


def reward(db: Connection, session_id: str, told: Sequence[Reward]) -> Session:
    """Raises as `change` and `rewards.added`."""
    before = _held(db, session_id)
    return _put(db, before, rewards.added(db, before, told))


def finish(db: Connection, session_id: str, status: SessionStatus, told: Sequence[Reward], clock: Clock) -> Session:
    """Its end, with the rewards told at it. The first end's `finished_at` stays. Raises as `reward`."""
    before = _held(db, session_id)
    rewarded = rewards.added(db, before, told)
    return _put(db, before, replace(rewarded, status=status, finished_at=before.finished_at or clock(db)))


def remove(db: Connection, session_id: str) -> bool:
    """Delete a session and all that is its, and leave a tombstone. False where there is none."""
    of_it = tables.sessions.c.session_id == session_id
    if db.execute(select(tables.sessions.c.session_id).where(of_it).with_for_update()).first() is None:
        return False
    for table in (tables.deliveries, tables.traces, tables.sessions):
        db.execute(delete(table).where(table.c.session_id == session_id))
    places.moved(db)
    db.execute(insert(tables.tombstones), {"session_id": session_id, "deleted_at": datetime.now(UTC)})
    return True
