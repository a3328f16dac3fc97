from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from storage.errors import BadCursor, ClaimExpired, ClaimNotFound
from storage.records import ClaimRequest, EndedQuery
from storage.store import Store
from tests.storage.examples import call, session


async def ended(store: Store, **query: Any) -> list[str]:
    return [found.session_id for found in (await store.ended_sessions(EndedQuery(**query))).items]


async def test_sessions_come_in_the_order_of_their_ends_and_open_ones_not_at_all(store: Store) -> None:
    for name in "abcd":
        await store.create_session(session(name))
    for name in "cab":
        await store.finish_session(name)
    assert await ended(store) == ["c", "a", "b"]


async def test_a_session_that_ends_again_keeps_its_place_and_has_its_new_status(store: Store) -> None:
    for name in "ab":
        await store.create_session(session(name))
        await store.finish_session(name)
    await store.finish_session("a", "failed")
    await store.change_session("a", attempt=3)
    assert await ended(store) == ["b"]
    assert await ended(store, statuses=("failed", "finished")) == ["a", "b"]


async def test_a_session_that_is_made_with_an_end_has_a_place_too(store: Store) -> None:
    begun = call("begun")
    store.begin(begun, session("begun", status="failed"))
    await store.finish(begun, timeout=5)
    await store.create_session(session("made", status="finished"))
    await store.create_session(session("changed"))
    await store.change_session("changed", status="aborted")
    assert await ended(store, statuses=("finished", "failed", "aborted")) == ["begun", "made", "changed"]


async def test_a_cursor_at_the_end_goes_on_with_what_ends_later(store: Store) -> None:
    nothing = await store.ended_sessions(EndedQuery())
    assert (nothing.items, nothing.next) == ((), nothing.next)
    cursor, seen = nothing.next, []
    for name in "abcde":
        await store.create_session(session(name))
        await store.finish_session(name)
        page = await store.ended_sessions(EndedQuery(cursor=cursor, limit=1))
        seen += [found.session_id for found in page.items]
        cursor = page.next
        again = await store.ended_sessions(EndedQuery(cursor=cursor, limit=1))
        assert (again.items, again.next) == ((), cursor)
    assert seen == ["a", "b", "c", "d", "e"]


async def test_who_follows_the_list_while_sessions_end_at_once_misses_none(store: Store) -> None:
    names = [f"s{number}" for number in range(60)]
    await asyncio.gather(*(store.create_session(session(name)) for name in names))
    seen: list[str] = []

    async def follow() -> None:
        cursor = None
        while len(seen) < len(names):
            page = await store.ended_sessions(EndedQuery(cursor=cursor, limit=7))
            seen.extend(found.session_id for found in page.items)
            cursor = page.next

    following = asyncio.create_task(follow())
    await asyncio.gather(*(store.finish_session(name) for name in names))
    await asyncio.wait_for(following, 10)
    assert sorted(seen) == sorted(names)


FOUND_BY: list[tuple[dict[str, Any], list[str]]] = [
    ({"session_id": "b"}, ["b"]),
    ({"run_id": "r1"}, ["a", "b"]),
    ({"run_id": ""}, ["d"]),
    ({"group_id": "g"}, ["b", "c"]),
    ({"run_id": "r2", "group_id": "g"}, ["c"]),
    ({"purpose": "eval"}, ["b"]),
    ({"purpose": "train"}, ["a", "c", "d"]),
    ({"since": datetime.now(UTC) + timedelta(days=1)}, []),
    ({"until": datetime.now(UTC) + timedelta(days=1)}, ["a", "b", "c", "d"]),
    ({"until": datetime(2026, 11, 1, tzinfo=UTC)}, []),
    ({"statuses": ("failed",)}, ["e"]),
    ({"undelivered_to": "trainer"}, ["b", "c", "d"]),
    ({"undelivered_to": "other"}, ["a", "b", "c", "d"]),
]


async def test_filters_find_what_they_name(store: Store) -> None:
    await store.create_session(session("a", run_id="r1"))
    await store.create_session(session("b", run_id="r1", group_id="g", purpose="eval"))
    await store.create_session(session("c", run_id="r2", group_id="g", purpose="train"))
    await store.create_session(session("d"))
    await store.create_session(session("e"))
    for name in "abcd":
        await store.finish_session(name)
    await store.finish_session("e", "failed")
    for limit in (1, 1):  # `a` is delivered, `c` only claimed.
        claim = await store.claims.take(ClaimRequest("trainer", limit=limit))
        assert claim is not None
        if claim.session_ids == ("a",):
            await store.claims.acknowledge(claim.claim_id)
    for query, expected in FOUND_BY:
        assert await ended(store, **query) == expected, query


async def test_a_claims_sessions_are_listed_whatever_their_status_while_they_are_its_own(store: Store) -> None:
    for name, status in (("a", "finished"), ("b", "failed"), ("c", "finished")):
        await store.create_session(session(name))
        await store.finish_session(name, status)  # type: ignore[arg-type]
    claim = await store.claims.take(ClaimRequest(limit=2, statuses=("finished", "failed")))
    assert claim is not None
    assert await ended(store, claim_id=claim.claim_id) == ["a", "b"]
    await store.claims.acknowledge(claim.claim_id)
    assert await ended(store, claim_id=claim.claim_id) == ["a", "b"]
    short = await store.claims.take(ClaimRequest(lease_s=0.01))
    assert short is not None
    await asyncio.sleep(0.02)
    with pytest.raises(ClaimExpired):
        await ended(store, claim_id=short.claim_id)
    with pytest.raises(ClaimNotFound):
        await ended(store, claim_id="never")


@pytest.mark.parametrize("cursor", ["x", "WyJ4Il0", "Wy0xXQ", "WzIxNDc0ODM2NDhd"])
async def test_a_cursor_of_something_else_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(BadCursor):
        await store.ended_sessions(EndedQuery(cursor=cursor))
