"""A server behind the same name that lacks what the one before it took last, as a replica does that was promoted."""

from __future__ import annotations

import asyncio

from sqlalchemy import delete, text

from storage.store import Store
from storage.tables import traces
from tests.storage.behind import behind
from tests.storage.conftest import on_postgres
from tests.storage.examples import call

LONG = list(range(2000))


@on_postgres
async def test_what_comes_after_a_failover_goes_on_from_nothing_that_the_new_server_lacks(
    store: Store, place: str
) -> None:
    kept, gone = call("s", LONG, [7]), call("s", [*LONG, 7, 8], [9])
    for trace in (kept, gone):
        await store.finish(trace, timeout=10)
    with behind(place) as db:
        db.execute(delete(traces).where(traces.c.trace_id == gone.trace_id))
    with behind(place) as db:
        db.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid()"
            )
        )
    await store.finish(call("another"), timeout=10)  # By this one it is found out.
    async with asyncio.timeout(20):
        while not await store.complete():
            await asyncio.sleep(0.02)
    after = call("s", [*LONG, 7, 8, 9, 10], [11])
    await store.finish(after, timeout=10)
    first, last = await store.whole_session("s")
    assert [first.trace_id, last.trace_id] == [kept.trace_id, after.trace_id]
    assert last.prompt_token_ids == after.prompt_token_ids
    assert (last.turn, last.parent_trace_id) == (1, kept.trace_id)
