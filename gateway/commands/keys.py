"""`keys create`, `list` and `revoke`, through a running gateway or in a database itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol
from urllib.parse import quote

import msgspec
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from gateway.api.keys import CreatedKey, NewKey, created
from gateway.commands.errors import CommandFailed
from gateway.commands.remote import Page, Remote, decode
from gateway.commands.screen import Screen
from gateway.commands.table import Column
from gateway.keys import digest, new_key
from storage import audit, keys
from storage.audit import Action
from storage.database import Database
from storage.errors import AlreadyServed, StorageError
from storage.keys import KeyQuery, StoredKey
from storage.opening import open_database

BY: Final = "command"
"""What the audit log calls whoever has the database."""
_AT_ONCE: Final = 1000


class Keeper(Protocol):
    """Whoever can make and revoke."""

    def create(self, asked: NewKey) -> CreatedKey: ...
    def every(self) -> list[StoredKey]: ...
    def revoke(self, key_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway, by its API."""

    remote: Remote

    def create(self, asked: NewKey) -> CreatedKey:
        body = asked.model_dump_json(exclude_none=True).encode()
        return decode(self.remote.post("/api/admin/keys", body), CreatedKey)

    def every(self) -> list[StoredKey]:
        found: list[StoredKey] = []
        cursor: dict[str, str] = {}
        while True:
            page = self.remote.read("/api/admin/keys", {"limit": _AT_ONCE, **cursor}, Page[StoredKey])
            found += page.items
            if page.next is None:
                return found
            cursor = {"cursor": page.next}

    def revoke(self, key_id: str) -> None:
        self.remote.delete(f"/api/admin/keys/{quote(key_id, safe='')}")


@dataclass(frozen=True, slots=True)
class Direct:
    """A database that this process opens. A SQLite file only while no gateway has it."""

    url: str

    def create(self, asked: NewKey) -> CreatedKey:
        made, key = asked.stored(BY), new_key()
        with _writing(self.url) as db:
            keys.add(db, made, digest(key))
            audit.add(db, _action("keys create", made.key_id))
        return created(made, key)

    def every(self) -> list[StoredKey]:
        with _opened(self.url) as database, database.read() as db:
            found: list[StoredKey] = []
            page = keys.page(db, KeyQuery(_AT_ONCE))
            while page.next is not None:
                found += page.items
                page = keys.page(db, KeyQuery(_AT_ONCE, page.next))
            return [*found, *page.items]

    def revoke(self, key_id: str) -> None:
        with _writing(self.url) as db:
            keys.revoke(db, key_id, BY, datetime.now(UTC))
            audit.add(db, _action("keys revoke", key_id))


def create(keeper: Keeper, asked: NewKey, screen: Screen) -> None:
    made = keeper.create(asked)
    if screen.as_json:
        screen.json(msgspec.json.encode(made))
        return
    screen.line(made.key)
    until = "" if made.expires_at is None else f", until {made.expires_at:%FT%TZ}"
    screen.note(f"{made.key_id} ({made.name}): {', '.join(made.scopes)}{until}. The key is not shown again.")


def show(keeper: Keeper, screen: Screen) -> None:
    every = keeper.every()
    if screen.as_json:
        screen.json(msgspec.json.encode({"items": every}))
        return
    screen.table(
        [
            Column("KEY", 0, tuple(key.key_id for key in every)),
            Column("NAME", 1, tuple(key.name for key in every)),
            Column("SCOPES", 0, tuple(",".join(key.scopes) for key in every)),
            Column("STATE", 0, tuple(_state(key) for key in every)),
            Column("LAST USED", 2, tuple(_moment(key.last_used_at) for key in every)),
            Column("MADE BY", 3, tuple(key.created_by for key in every)),
        ]
    )


def _state(key: StoredKey) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "good"
    over = key.expires_at <= datetime.now(UTC)
    return "expired" if over else f"until {key.expires_at:%FT%TZ}"


def _moment(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%FT%TZ}"


def _action(what: str, key_id: str) -> Action:
    return Action(at=datetime.now(UTC), by=BY, action=what, target=key_id, outcome="done")


@contextmanager
def _writing(url: str) -> Iterator[Connection]:
    with _opened(url) as database, database.write_connection() as db, db.begin():
        yield db


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    """Raises CommandFailed."""
    try:
        database = open_database(url)
    except AlreadyServed as exc:
        raise CommandFailed(
            f"{exc} Or ask that gateway itself, at its own address: --url http://127.0.0.1:9090"
        ) from exc
    except StorageError as exc:
        raise CommandFailed(str(exc)) from exc
    try:
        yield database
    except (StorageError, DBAPIError) as exc:
        raise CommandFailed(str(exc)) from exc
    finally:
        database.close()
