"""Who changed what of the gateway, when, and what came of it. Never a body, never a secret."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Literal

from sqlalchemy import Connection, delete, insert, select

from storage import cursors
from storage.ids import new_id
from storage.records import PAGE_LIMIT, Page
from storage.tables import audit
from storage.upkeep import Read, Write

Outcome = Literal["done", "refused", "failed"]
"""Refused: the caller's fault, a 4xx; failed: ours or a backend's, a 5xx."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing that somebody did, or was not let do."""

    at: datetime
    by: str
    """A `key_id`, `admin_key`, `local` (nobody needed a key) or `command` (at the database itself)."""
    action: str
    """The route, e.g. `DELETE /api/admin/keys/{key_id}`."""
    target: str | None = None
    """The name or id of what it was done to."""
    outcome: Outcome
    status: int | None = None
    """Of the answer."""
    request_id: str | None = None
    gateway_id: str | None = None


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """The latest come first. A field that is null does not filter."""

    limit: int = PAGE_LIMIT
    cursor: str | None = None
    by: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Audit:
    """A store's log of actions, for one event loop."""

    def __init__(self, read: Read, write: Write) -> None:
        self._read = read
        self._write = write

    def add(self, action: Action) -> Awaitable[None]:
        return self._write(None, partial(add, action=action))

    def page(self, query: AuditQuery) -> Awaitable[Page[Action]]:
        """Raises BadCursor."""
        return self._read(page, query)

    def prune(self, before: datetime) -> Awaitable[int]:
        """How many went."""
        return self._write(None, partial(prune, before=before))


def add(db: Connection, action: Action) -> None:
    db.execute(insert(audit), asdict(action) | {"audit_id": new_id()})


def page(db: Connection, query: AuditQuery) -> Page[Action]:
    wanted = select(audit).order_by(audit.c.audit_id.desc()).limit(query.limit + 1)
    if query.cursor is not None:
        (before,) = cursors.unpack(query.cursor, tuple[str])
        wanted = wanted.where(audit.c.audit_id < before)
    if query.by is not None:
        wanted = wanted.where(audit.c.by == query.by)
    if query.since is not None:
        wanted = wanted.where(audit.c.at >= query.since)
    if query.until is not None:
        wanted = wanted.where(audit.c.at < query.until)
    rows = [row._asdict() for row in db.execute(wanted)]
    ids = [row.pop("audit_id") for row in rows]
    found = tuple(Action(**row) for row in rows[: query.limit])
    return Page(found, cursors.pack((ids[query.limit - 1],)) if len(rows) > query.limit else None)


def prune(db: Connection, before: datetime) -> int:
    return db.execute(delete(audit).where(audit.c.at < before)).rowcount
