from __future__ import annotations

import asyncio

import pytest

from storage.errors import SessionDeleted
from storage.store import Store
from tests.storage.examples import call, session


async def test_a_session_is_found_with_what_is_queued_of_it(store: Store) -> None:
    await store.create_session(session("made", run_id="run"))
    store.pin_backend("made", "backend-1")
    assert await store.find_session("made") == session("made", run_id="run", backend="backend-1")
    store.begin(call("begun"), session("begun"))
    assert await store.find_session("begun") == session("begun")
    async with asyncio.timeout(20):
        while store.counts().queued:
            await asyncio.sleep(0.01)
    assert await store.find_session("begun") == session("begun")
    assert await store.find_session("never") is None


async def test_a_deleted_session_is_told_from_one_that_never_was(store: Store) -> None:
    await store.create_session(session("s"))
    await store.delete_session("s")
    with pytest.raises(SessionDeleted):
        await store.find_session("s")


async def test_a_look_that_many_share_outlives_the_one_who_began_it(store: Store) -> None:
    await store.create_session(session("s"))
    asking = [asyncio.create_task(store.find_session("s")) for _ in range(5)]
    await asyncio.sleep(0)
    asking[0].cancel()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1:] == [session("s")] * 4


async def test_who_asks_after_a_change_sees_it(store: Store) -> None:
    for number in range(20):
        before = [asyncio.create_task(store.find_session(f"s{number}")) for _ in range(3)]
        await store.create_session(session(f"s{number}"))
        assert await store.find_session(f"s{number}") == session(f"s{number}")
        await asyncio.gather(*before)
