"""Keys that were made for callers: kept as digests, and never forgotten, so that what was revoked stays so.

A count rises with every change. Who keeps a copy in memory asks for that alone, until it has risen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypedDict, Unpack

import msgspec
from sqlalchemy import Connection, String, bindparam, cast, func, insert, or_, select, update

from storage import cursors
from storage.errors import KeyNotFound, TooManyKeys
from storage.records import PAGE_LIMIT, Page
from storage.scopes import Scope
from storage.tables import AnyRow, counters, keys
from storage.upkeep import Read, Write

MOST_LIVE: Final = 10_000
"""Keys that are not revoked: every gateway has them in memory."""
_CHANGES: Final = "keys"
_HIDDEN: Final = "key_hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """Everything of a key but the key itself. A limit that is null is none."""

    key_id: str
    name: str
    note: str | None = None
    scopes: tuple[Scope, ...]
    created_at: datetime
    created_by: str | None = None
    """Whose key made it: a `key_id`, `admin_key`, `local` (nobody needed one) or `command` (at the database itself)."""
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    last_used_at: datetime | None = None
    """Half a minute old at most."""
    max_calls: int | None = None
    """That run at a time."""
    calls_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Of prompts and completions together, as they are recorded."""


class KeyChanges(TypedDict, total=False):
    name: str
    note: str | None
    scopes: tuple[Scope, ...]
    expires_at: datetime | None
    max_calls: int | None
    calls_per_minute: int | None
    tokens_per_minute: int | None


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """Of a list of keys, the oldest first."""

    limit: int = PAGE_LIMIT
    cursor: str | None = None
    revoked: bool | None = None


@dataclass(frozen=True, slots=True)
class KeySet:
    """All keys that are not revoked, as of one count of changes."""

    changes: int
    by_hash: Mapping[bytes, StoredKey]
    scopes_ever: frozenset[Scope]
    """Of every key that there ever was: a gateway that had keys does not open when the last is revoked."""


class Keys:
    """A store's keys, for one event loop."""

    def __init__(self, read: Read, write: Write) -> None:
        self._read = read
        self._write = write

    def changes(self) -> Awaitable[int]:
        return self._read(count_changes)

    def live(self) -> Awaitable[KeySet]:
        return self._read(live)

    def page(self, query: KeyQuery) -> Awaitable[Page[StoredKey]]:
        """Raises BadCursor."""
        return self._read(page, query)

    def get(self, key_id: str) -> Awaitable[StoredKey]:
        """Raises KeyNotFound."""
        return self._read(get, key_id)

    def add(self, key: StoredKey, key_hash: bytes) -> Awaitable[None]:
        """Raises TooManyKeys."""
        return self._write(None, partial(add, key=key, key_hash=key_hash))

    def change(self, key_id: str, **changes: Unpack[KeyChanges]) -> Awaitable[StoredKey]:
        """Raises KeyNotFound."""
        return self._write(None, partial(change, key_id=key_id, changes=changes))

    def revoke(self, key_id: str, by: str) -> Awaitable[StoredKey]:
        """For good; a second time changes nothing. Raises KeyNotFound."""
        return self._write(None, partial(revoke, key_id=key_id, by=by, now=datetime.now(UTC)))

    def used(self, at: Mapping[str, datetime]) -> Awaitable[None]:
        """When each key was used last."""
        return self._write(None, partial(used, at=at))


def count_changes(db: Connection) -> int:
    value: int = db.execute(select(counters.c.value).where(counters.c.name == _CHANGES)).scalar_one()
    return value


def live(db: Connection) -> KeySet:
    # The count first: what is changed between the two is read again at the next look, and never missed.
    changes = count_changes(db)
    rows = db.execute(select(keys).where(keys.c.revoked_at.is_(None))).all()
    return KeySet(changes, {row.key_hash: _of(row) for row in rows}, _scopes_ever(db))


def _scopes_ever(db: Connection) -> frozenset[Scope]:
    # As text, for PostgreSQL does not compare JSON.
    kinds = db.scalars(select(cast(keys.c.scopes, String)).distinct())
    return frozenset(scope for kind in kinds for scope in msgspec.json.decode(kind, type=tuple[Scope, ...]))


def page(db: Connection, query: KeyQuery) -> Page[StoredKey]:
    wanted = select(keys).order_by(keys.c.key_id).limit(query.limit + 1)
    if query.cursor is not None:
        (after,) = cursors.unpack(query.cursor, tuple[str])
        wanted = wanted.where(keys.c.key_id > after)
    if query.revoked is not None:
        wanted = wanted.where(keys.c.revoked_at.is_not(None) if query.revoked else keys.c.revoked_at.is_(None))
    found = [_of(row) for row in db.execute(wanted)]
    if len(found) <= query.limit:
        return Page(tuple(found))
    return Page(tuple(found[: query.limit]), cursors.pack((found[query.limit - 1].key_id,)))


def get(db: Connection, key_id: str) -> StoredKey:
    row = db.execute(select(keys).where(keys.c.key_id == key_id)).first()
    if row is None:
        raise KeyNotFound(key_id)
    return _of(row)


def add(db: Connection, key: StoredKey, key_hash: bytes) -> None:
    _changed(db)  # First, for it locks out everyone else who counts.
    present: int = db.execute(select(func.count()).select_from(keys).where(keys.c.revoked_at.is_(None))).scalar_one()
    if present >= MOST_LIVE:
        raise TooManyKeys(MOST_LIVE)
    row = {name: getattr(key, name) for name in StoredKey.__dataclass_fields__}
    db.execute(insert(keys), row | {_HIDDEN: key_hash})


def change(db: Connection, key_id: str, changes: KeyChanges) -> StoredKey:
    _changed(db)
    before = get(db, key_id)
    if changes:
        db.execute(update(keys).where(keys.c.key_id == key_id).values(**changes))
    return replace(before, **changes)


def revoke(db: Connection, key_id: str, by: str, now: datetime) -> StoredKey:
    _changed(db)
    before = get(db, key_id)
    if before.revoked_at is not None:
        return before
    db.execute(update(keys).where(keys.c.key_id == key_id).values(revoked_at=now, revoked_by=by))
    return replace(before, revoked_at=now, revoked_by=by)


def used(db: Connection, at: Mapping[str, datetime]) -> None:
    """No change that anyone would have to hear of."""
    later = or_(keys.c.last_used_at.is_(None), keys.c.last_used_at < bindparam("seen"))
    row = update(keys).where(keys.c.key_id == bindparam("id"), later).values(last_used_at=bindparam("seen"))
    # In one order everywhere, or two gateways could wait for each other's rows.
    db.execute(row, [{"id": key_id, "seen": seen} for key_id, seen in sorted(at.items())])


def _changed(db: Connection) -> None:
    db.execute(update(counters).where(counters.c.name == _CHANGES).values(value=counters.c.value + 1))


def _of(row: AnyRow) -> StoredKey:
    told: dict[str, Any] = row._asdict()
    del told[_HIDDEN]
    return StoredKey(**told)
