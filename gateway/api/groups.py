"""`/api/groups`: the prompts of a run and how far their rollouts are, for who needs them n at a time (GRPO)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from gateway.api.inputs import Cursor, GroupSize, Limit, RunId, Strict, Wait
from gateway.api.listing import complete_page, json_answer
from gateway.api.parts import Parts
from gateway.api.scoped import needs
from storage.records import PAGE_LIMIT, Group, GroupQuery

router = APIRouter(tags=["groups"], dependencies=[needs("trace:read")])


class GroupFilters(Strict):
    """A field that is left out does not filter."""

    run_id: RunId | None = None
    group_id: str | None = None
    complete: bool | None = None
    group_size: GroupSize | None = None
    """How many sessions the groups are to have of which no session says it."""
    limit: Limit = PAGE_LIMIT
    cursor: Cursor | None = None
    wait: Wait = 0

    def query(self) -> GroupQuery:
        return GroupQuery(**self.model_dump(exclude={"wait"}))


@dataclass(frozen=True, slots=True)
class GroupPage:
    items: tuple[Group, ...]
    next: str | None
    complete: bool


@router.get("/groups", response_model=GroupPage)
async def list_groups(filters: Annotated[GroupFilters, Query()], request: Request, parts: Parts) -> Response:
    """Groups by when one of their sessions last ended, those first of which none has.

    No items: there is nothing more for now. `next` goes on from here then too, and with `wait` it waits for the next
    group that is as asked. `complete` are those of which as many sessions have ended as they are to have, whichever
    way they ended; one that grows on after that is listed again.
    """
    query = filters.query()
    page, complete = await complete_page(lambda: parts.store.groups(query), filters.wait, request, parts)
    return json_answer(GroupPage(page.items, page.next, complete))
