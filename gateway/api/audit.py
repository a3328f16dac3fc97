"""`/api/admin/audit`: who changed what, when, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from pydantic import field_validator

from gateway.api.inputs import Cursor, Label, Limit, Strict, Timestamp
from gateway.api.listing import json_answer
from gateway.api.parts import Parts
from gateway.api.scoped import needs
from storage.audit import Action, AuditQuery
from storage.records import PAGE_LIMIT

router = APIRouter(prefix="/admin/audit", tags=["administration"], dependencies=[needs("admin")])

KEPT: Final = timedelta(days=7)


class AuditFilters(Strict):
    """A field that is left out does not filter."""

    by: Label | None = None
    """A `key_id`, `admin_key`, `local` or `command`."""
    since: Timestamp | None = None
    until: Timestamp | None = None
    limit: Limit = PAGE_LIMIT
    cursor: Cursor | None = None

    def query(self) -> AuditQuery:
        return AuditQuery(**self.model_dump())


@dataclass(frozen=True, slots=True)
class ActionList:
    items: tuple[Action, ...]
    next: str | None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class ActionsPruned:
    actions: int


class AuditPrune(Strict):
    before: Timestamp

    @field_validator("before", mode="after")
    @classmethod
    def _long_ago(cls, value: datetime) -> datetime:
        if datetime.now(UTC) - value < KEPT:
            raise ValueError(f"what is younger than {KEPT.days} days stays")
        return value


@router.delete("", response_model=ActionsPruned)
async def prune_actions(wanted: Annotated[AuditPrune, Query()], parts: Parts) -> Response:
    """Delete what happened before that time. The last week stays: nobody wipes out what was done just now."""
    return json_answer(ActionsPruned(await parts.audit.prune(wanted.before)))


@router.get("", response_model=ActionList)
async def list_actions(filters: Annotated[AuditFilters, Query()], parts: Parts) -> Response:
    """Every change that needs the scope `admin`, done or refused, the latest first. Never a body or a secret."""
    page = await parts.audit.page(filters.query())
    return json_answer(ActionList(page.items, page.next))
