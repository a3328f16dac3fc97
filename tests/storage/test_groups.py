from __future__ import annotations

from typing import Any

import pytest

from adapters.schema import SessionStatus
from storage.errors import BadCursor
from storage.records import Group, GroupQuery
from storage.store import Store
from tests.storage.examples import session


async def ended(store: Store, name: str, status: SessionStatus = "finished", **fields: Any) -> None:
    await store.create_session(session(name, **fields))
    await store.finish_session(name, status)


async def groups(store: Store, **query: Any) -> list[Group]:
    return list((await store.groups(GroupQuery(**query))).items)


async def names(store: Store, **query: Any) -> list[tuple[str | None, str]]:
    return [(group.run_id, group.group_id) for group in await groups(store, **query)]


async def test_a_group_is_counted_by_how_its_sessions_stand(store: Store) -> None:
    of = {"run_id": "r", "group_id": "g"}
    await store.create_session(session("a", **of, group_size=4))
    await ended(store, "b", **of)
    await ended(store, "c", "failed", **of, group_size=3)
    await ended(store, "d", "aborted", **of)
    await ended(store, "ungrouped", run_id="r")
    counted = Group("r", "g", size=4, sessions=4, open=1, finished=1, failed=1, aborted=1, complete=False)
    assert await groups(store) == [counted]
    await store.finish_session("a")
    assert await groups(store) == [
        Group("r", "g", size=4, sessions=4, open=0, finished=2, failed=1, aborted=1, complete=True)
    ]


async def test_a_group_is_complete_though_more_of_it_were_begun(store: Store) -> None:
    for name in "ab":
        await ended(store, name, group_id="g", group_size=2)
    await store.create_session(session("c", group_id="g", group_size=2))
    assert [(each.open, each.complete) for each in await groups(store)] == [(1, True)]


async def test_the_size_that_was_asked_for_is_of_groups_that_declare_none(store: Store) -> None:
    await ended(store, "a", run_id="r", group_id="silent")
    await ended(store, "b", run_id="r", group_id="declared", group_size=2)
    assert [(each.size, each.complete) for each in await groups(store)] == [(None, False), (2, False)]
    assert [(each.size, each.complete) for each in await groups(store, group_size=1)] == [(1, True), (2, False)]
    assert await names(store, complete=True) == []
    assert await names(store, complete=False) == [("r", "silent"), ("r", "declared")]
    assert await names(store, complete=True, group_size=1) == [("r", "silent")]


async def test_groups_of_one_name_in_several_runs_are_several(store: Store) -> None:
    await ended(store, "a", run_id="r1", group_id="g")
    await ended(store, "b", run_id="r2", group_id="g")
    await ended(store, "c", group_id="g")
    await ended(store, "d", group_id="g")
    assert [(each.run_id, each.sessions) for each in await groups(store)] == [("r1", 1), ("r2", 1), (None, 2)]
    assert await names(store, run_id="r2") == [("r2", "g")]
    assert await names(store, run_id="") == [(None, "g")]
    assert await names(store, group_id="other") == []


async def test_pages_go_through_all_groups_and_then_on_to_those_that_get_further(store: Store) -> None:
    for name in ("x", "y"):
        for run_id in (None, "r"):
            await store.create_session(session(f"{run_id}-{name}", run_id=run_id, group_id=name))
    for name in ("p", "q"):
        await ended(store, name, run_id="r", group_id=name)
    found, cursor = [], None
    for _ in range(6):
        page = await store.groups(GroupQuery(limit=1, cursor=cursor))
        found += [(group.run_id, group.group_id) for group in page.items]
        cursor = page.next
    assert found == [(None, "x"), (None, "y"), ("r", "x"), ("r", "y"), ("r", "p"), ("r", "q")]
    end = await store.groups(GroupQuery(cursor=cursor))
    assert (end.items, end.next) == ((), cursor)
    await store.finish_session("r-y")
    await store.finish_session("None-x")
    assert await names(store, cursor=cursor) == [("r", "y"), (None, "x")]


async def test_a_complete_group_comes_again_when_it_grows(store: Store) -> None:
    await ended(store, "a", group_id="g", group_size=1)
    page = await store.groups(GroupQuery(complete=True))
    await ended(store, "b", group_id="g")
    assert await names(store, complete=True, cursor=page.next) == [(None, "g")]


@pytest.mark.parametrize("cursor", ["x", "WzFd", "Wy0xLCIiLCIiXQ"])
async def test_a_cursor_of_something_else_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(BadCursor):
        await store.groups(GroupQuery(cursor=cursor))
