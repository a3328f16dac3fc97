"""`/api/admin/keys`: keys are made here, shown once, narrowed, and revoked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AfterValidator, Field

from gateway.api.auditing import name_target
from gateway.api.auth import LOCAL
from gateway.api.inputs import Cursor, Label, Limit, Strict, Timestamp
from gateway.api.listing import json_answer
from gateway.api.parts import Parts
from gateway.api.scoped import AskedBy, needs
from gateway.keys import digest, new_key
from gateway.refusals import Forbidden
from storage.ids import new_id
from storage.keys import KeyChanges, KeyQuery, StoredKey
from storage.records import PAGE_LIMIT
from storage.scopes import SCOPES, Scope

router = APIRouter(prefix="/admin/keys", tags=["keys"], dependencies=[needs("admin")])

KeyId = Annotated[str, Path(max_length=128)]
_MOST: Final = 2**31 - 1
Bound = Annotated[int, Field(ge=1, le=_MOST)]


def _in_order(scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
    return tuple(scope for scope in SCOPES if scope in scopes)


Scopes = Annotated[tuple[Scope, ...], Field(min_length=1, max_length=64), AfterValidator(_in_order)]
"""`infer`: model calls. `session:write`: sessions, each with a key for its own calls. `trace:read`: all that was
recorded. `reward:write`: rewards. `admin`: all under `/api/admin`."""


class KeyFields(Strict):
    """What may be said of a key, and changed later. A limit that is left out, or null, is none."""

    note: Annotated[str, Field(max_length=2048)] | None = None
    expires_at: Timestamp | None = None
    """Null: never."""
    max_calls: Bound | None = None
    """That run at a time, at each gateway; null: `max_calls_per_key`."""
    calls_per_minute: Bound | None = None
    """At each gateway."""
    tokens_per_minute: Bound | None = None
    """Of prompts and answers together, at each gateway, counted when a call has ended."""


class NewKey(KeyFields):
    name: Label
    scopes: Scopes

    def stored(self, by: str) -> StoredKey:
        return StoredKey(key_id=new_id(), created_at=datetime.now(UTC), created_by=by, **self.model_dump())


class ChangedKey(KeyFields):
    """What is left out stays as it is."""

    name: Label = ""
    scopes: Scopes = ()

    def changes(self) -> KeyChanges:
        changes: KeyChanges = self.model_dump(exclude_unset=True)  # type: ignore[assignment]
        return changes


class KeyFilters(Strict):
    revoked: bool | None = None
    """Left out: both."""
    limit: Limit = PAGE_LIMIT
    cursor: Cursor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedKey(StoredKey):
    key: str
    """It is told here and never again."""


@dataclass(frozen=True, slots=True)
class KeyList:
    items: tuple[StoredKey, ...]
    next: str | None
    complete: bool = True


@router.post("", status_code=201, response_model=CreatedKey)
async def create_key(body: NewKey, request: Request, caller: AskedBy, parts: Parts) -> Response:
    """Make a key with no scope that its maker lacks, that does not outlive it. The answer alone has the key itself."""
    caller.check_no_wider(body.scopes, body.expires_at)
    if caller is LOCAL and "admin" not in body.scopes:
        raise Forbidden("With its first key /api is closed to who has none: let the first have the scope `admin`.")
    made, key = body.stored(caller.by), new_key()
    name_target(request, made.key_id)
    await parts.keys.add(made, digest(key))
    await parts.callers.refresh()
    return json_answer(created(made, key), 201)


@router.get("", response_model=KeyList)
async def list_keys(filters: Annotated[KeyFilters, Query()], parts: Parts) -> Response:
    """The oldest first, those that are revoked among them; of the keys themselves nothing is told."""
    page = await parts.keys.page(KeyQuery(filters.limit, filters.cursor, filters.revoked))
    return json_answer(KeyList(page.items, page.next))


@router.get("/{key_id}", response_model=StoredKey)
async def read_key(key_id: KeyId, parts: Parts) -> Response:
    return json_answer(await parts.keys.get(key_id))


@router.patch("/{key_id}", response_model=StoredKey)
async def change_key(key_id: KeyId, body: ChangedKey, caller: AskedBy, parts: Parts) -> Response:
    """Change what the body names. A key that may do more than the caller's own is not changed by it, only revoked."""
    present, changes = await parts.keys.get(key_id), body.changes()
    scopes: tuple[Scope, ...] = changes.get("scopes", present.scopes)
    caller.check_no_wider({*present.scopes, *scopes}, changes.get("expires_at", present.expires_at))
    if not changes:
        return json_answer(present)
    changed = await parts.keys.change(key_id, **changes)
    await parts.callers.refresh()
    return json_answer(changed)


@router.delete("/{key_id}", status_code=204, response_class=Response)
async def revoke_key(key_id: KeyId, caller: AskedBy, parts: Parts) -> None:
    """Revoke it, for good: here at once, at other gateways within seconds. What it has begun goes on to its end."""
    await parts.keys.revoke(key_id, caller.by)
    await parts.callers.refresh()


def created(made: StoredKey, key: str) -> CreatedKey:
    values: dict[str, Any] = {field.name: getattr(made, field.name) for field in fields(StoredKey)}
    return CreatedKey(**values, key=key)
