"""The log of what administrators did."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from storage.audit import Action, AuditQuery
from storage.errors import BadCursor
from storage.store import Store
from tests.storage.examples import NOON

ADDED = Action(
    at=NOON,
    by="admin_key",
    action="POST /api/admin/backends",
    target="gpu-1",
    outcome="done",
    status=201,
    request_id="r",
    gateway_id="gateway-1",
)


async def test_the_latest_come_first_and_a_page_goes_on_where_one_ended(store: Store) -> None:
    actions = [replace(ADDED, at=NOON + timedelta(seconds=number), target=f"gpu-{number}") for number in range(5)]
    for action in actions:
        await store.audit.add(action)
    first = await store.audit.page(AuditQuery(limit=3))
    rest = await store.audit.page(AuditQuery(limit=3, cursor=first.next))
    assert [*first.items, *rest.items] == actions[::-1]
    assert rest.next is None
    with pytest.raises(BadCursor):
        await store.audit.page(AuditQuery(cursor="none"))


async def test_it_is_asked_by_who_and_when(store: Store) -> None:
    other = replace(ADDED, by="k", at=NOON + timedelta(hours=1), outcome="refused", status=403)
    await store.audit.add(ADDED)
    await store.audit.add(other)
    assert (await store.audit.page(AuditQuery(by="k"))).items == (other,)
    assert (await store.audit.page(AuditQuery(since=NOON + timedelta(seconds=1)))).items == (other,)
    assert (await store.audit.page(AuditQuery(until=NOON + timedelta(seconds=1)))).items == (ADDED,)


async def test_what_is_old_goes(store: Store) -> None:
    await store.audit.add(ADDED)
    await store.audit.add(replace(ADDED, at=NOON + timedelta(hours=1)))
    assert await store.audit.prune(NOON + timedelta(minutes=1)) == 1
    assert len((await store.audit.page(AuditQuery())).items) == 1
