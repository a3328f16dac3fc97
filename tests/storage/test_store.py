from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import MetaData, delete, func, select, update

from adapters.schema import Reward, Trace
from storage.errors import CorruptTrace, SessionDeleted, SessionExists, SessionNotFound
from storage.gateways import INTERRUPTED
from storage.ids import new_id
from storage.records import StoredBackend, TraceQuery
from storage.store import Store
from storage.tables import gateways
from storage.tables import traces as rows
from tests.storage.behind import behind
from tests.storage.examples import NOON, call, session, traces


async def of_session(store: Store, session_id: str) -> tuple[Trace, ...]:
    return (await store.traces(TraceQuery(session_id=session_id))).items


async def test_a_finished_call_is_read_back_as_it_was_written(store: Store) -> None:
    trace = call("s", [1, 2, 3], [4, 5], body=b'{"n": 1.10}')
    store.begin(replace(trace, status="running", choices=()), session("s", run_id="run"))
    await store.finish(trace, timeout=5)
    assert await store.trace(trace.trace_id) == replace(trace, turn=0)
    assert await store.session("s") == session("s", run_id="run")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_any_traces_are_read_back_as_they_were_written(store: Store, data: st.DataObject) -> None:
    session_id = new_id()
    written = [data.draw(traces(session_id)) for _ in range(data.draw(st.integers(1, 4)))]
    for trace in written:
        store.begin(replace(trace, status="running"))
    await asyncio.gather(*(store.finish(trace, timeout=5) for trace in written))
    expected = [replace(trace, turn=turn) for turn, trace in enumerate(written)]
    assert list(await of_session(store, session_id)) == expected


async def test_a_running_call_is_seen_and_then_replaced_by_its_end(store: Store) -> None:
    running = call("s", status="running", request=call("s").request)
    store.begin(running)
    await asyncio.sleep(0.3)
    assert (await of_session(store, "s"))[0].status == "running"
    await store.finish(replace(running, status="ok"), timeout=5)
    assert [(trace.status, trace.turn) for trace in await of_session(store, "s")] == [("ok", 0)]


async def test_turns_follow_the_order_in_which_calls_began(store: Store) -> None:
    calls = [call(f"s{number % 3}") for number in range(30)]
    for one in calls:
        store.begin(one)
    await asyncio.gather(*(store.finish(one, timeout=5) for one in reversed(calls)))
    for session_id in ("s0", "s1", "s2"):
        found = await of_session(store, session_id)
        assert [trace.trace_id for trace in found] == [c.trace_id for c in calls if c.session_id == session_id]
        assert [trace.turn for trace in found] == list(range(10))


async def test_a_call_that_never_began_is_recorded_all_the_same(store: Store) -> None:
    await store.finish(call("s"), timeout=5)
    await store.finish(call("s"), timeout=5)
    assert [trace.turn for trace in await of_session(store, "s")] == [0, 1]
    assert await store.session("s") is not None


async def test_finishing_again_changes_nothing(store: Store) -> None:
    trace = call("s", [1], [2])
    await store.finish(trace, timeout=5)
    await asyncio.gather(*(store.finish(replace(trace, status="interrupted"), timeout=5) for _ in range(3)))
    await store.finish(call("s"), timeout=5)
    assert [(found.status, found.turn) for found in await of_session(store, "s")] == [("ok", 0), ("ok", 1)]
    assert store.counts().committed == 2


async def test_the_parent_of_a_call_is_found_by_its_tokens(store: Store) -> None:
    first = call("s", [1, 2], [3], [4])
    other = call("t", [1, 2], [3], [4])
    second = call("s", [1, 2, 4, 5], [6])
    rerendered = call("s", [1, 9, 4, 5, 6], [7])
    for trace in (first, other, second, rerendered):
        await store.finish(trace, timeout=5)
    found = await of_session(store, "s")
    assert [(t.parent_trace_id, t.parent_index) for t in found] == [(None, None), (first.trace_id, 1), (None, None)]


async def test_which_choice_is_continued_outlives_the_process(place: str) -> None:
    first, second = call("s", [1, 2], [3], [4]), call("s", [1, 2, 4, 5], [6])
    for trace in (first, second):
        store = Store.open(place, gateway_id="gateway-1")
        await store.finish(trace, timeout=5)
        found = await store.trace(trace.trace_id)
        await store.close()
    assert found is not None
    assert (found.parent_trace_id, found.parent_index) == (first.trace_id, 1)


async def test_parents_turns_and_bases_outlive_the_process(place: str) -> None:
    history: list[int] = []
    written = []
    store = Store.open(place, gateway_id="gateway-1")
    for turn in range(80):
        prompt = [*history, *range(turn * 50, turn * 50 + 40)]
        body = b"%a" % prompt
        trace = call("s", prompt, list(range(10)), body=body)
        await store.finish(trace, timeout=5)
        history = prompt + list(range(10))
        parent = (written[-1].trace_id, 0) if written else (None, None)
        written.append(replace(trace, turn=turn, parent_trace_id=parent[0], parent_index=parent[1]))
        if turn % 13 == 12:
            await store.close()
            store = Store.open(place, gateway_id=f"gateway-{turn}")
    assert list(await of_session(store, "s")) == written
    assert await store.trace(written[-1].trace_id, "s") == written[-1]
    await store.close()
    with behind(place) as db:
        depths = db.scalars(select(rows.c.depth).order_by(rows.c.turn)).all()
        size = db.scalar(select(func.sum(func.length(rows.c.text) + func.length(rows.c.ids))))
    assert max(depths) == 32
    assert depths.count(0) == 3
    assert size < sum(len(trace.request.body or b"") for trace in written) / 10


async def test_a_trace_that_changed_on_disk_is_named(store: Store, place: str) -> None:
    base, link = call("s", [1], [2], body=b"abc" * 300), call("s", [1, 2], [3], body=b"abc" * 301)
    await store.finish(base, timeout=5)
    await store.finish(link, timeout=5)
    with behind(place) as db:
        ids = db.scalar(select(rows.c.ids).where(rows.c.trace_id == base.trace_id)) or b""
        db.execute(update(rows).where(rows.c.trace_id == base.trace_id).values(ids=ids[:-1] + b"\x01"))
    with pytest.raises(CorruptTrace, match=base.trace_id):
        await store.trace(base.trace_id)
    with behind(place) as db:
        db.execute(delete(rows).where(rows.c.trace_id == base.trace_id))
    with pytest.raises(CorruptTrace, match=f"{link.trace_id}.*base {base.trace_id} is missing"):
        await store.trace(link.trace_id)


async def test_a_corrupt_trace_does_not_stop_its_session(place: str) -> None:
    store = Store.open(place, gateway_id="gateway-1")
    first = call("s", [1], [2])
    await store.finish(first, timeout=5)
    await store.close()
    with behind(place) as db:
        db.execute(update(rows).values(text=b"\x07"))
    store = Store.open(place, gateway_id="gateway-2")
    second = call("s", [1, 2], [3])
    await store.finish(second, timeout=5)
    found = await store.trace(second.trace_id)
    assert found == replace(second, turn=1, parent_trace_id=first.trace_id, parent_index=0)
    await store.close()


async def test_calls_that_ran_when_their_gateway_died_are_interrupted(place: str) -> None:
    store = Store.open(place, gateway_id="gateway-1")
    running = call("s", status="running")
    store.begin(running)
    await store.close()
    with behind(place) as db:  # Where others may live, it is by its silence that one is known to be dead.
        db.execute(update(gateways).values(heartbeat_at=NOON))
    store = Store.open(place, gateway_id="gateway-2")
    found = await store.trace(running.trace_id)
    assert found is not None
    assert (found.status, found.fidelity_reason, found.turn) == ("interrupted", INTERRUPTED, 0)
    await store.finish(replace(running, status="ok"), timeout=5)
    found = await store.trace(running.trace_id)
    assert found is not None
    assert (found.status, found.turn) == ("ok", 0)
    await store.close()


async def test_a_session_reads_as_it_was_just_written(store: Store) -> None:
    store.begin(call("s"), session("s", run_id="run"))
    assert await store.session("s") == session("s", run_id="run")
    store.pin_backend("s", "backend-1")
    assert await store.session("s") == session("s", run_id="run", backend="backend-1")
    async with asyncio.timeout(20):
        while store.counts().queued:
            await asyncio.sleep(0.01)
    assert await store.session("s") == session("s", run_id="run", backend="backend-1")


async def test_the_first_pin_is_right_and_only_who_knows_it_replaces_it(store: Store) -> None:
    await store.create_session(session("s"))
    for backend, instead_of, stays in (
        ("gpu-1", None, "gpu-1"),
        ("gpu-2", None, "gpu-1"),
        ("gpu-3", "gpu-1", "gpu-3"),
        ("gpu-4", "gpu-1", "gpu-3"),
    ):
        store.pin_backend("s", backend, instead_of)
        await store.finish(call("s"), timeout=5)
        found = await store.session("s")
        assert found is not None
        assert found.backend == stays


async def test_pins_of_one_batch_are_heeded_in_their_order(store: Store) -> None:
    await store.create_session(session("s"))
    for backend, instead_of in (("gpu-1", None), ("gpu-2", "gpu-1"), ("gpu-3", "gpu-1")):
        store.pin_backend("s", backend, instead_of)
    await store.finish(call("s"), timeout=5)
    found = await store.session("s")
    assert found is not None
    assert found.backend == "gpu-2"


async def test_an_attempt_goes_on_from_nothing_of_the_one_before(place: str) -> None:
    first = call("s", [1, 2], [3], attempt=0)
    again = call("s", [1, 2, 3], [4], attempt=1)
    then = call("s", [1, 2, 3, 4], [5], attempt=1)
    late = call("s", [1, 2, 3, 6], [7], attempt=0)
    for trace in (first, again, then, late):  # Each by a process of its own, and so out of the database.
        store = Store.open(place, gateway_id="gateway-1")
        await store.finish(trace, timeout=5)
        parents = [(each.attempt, each.parent_trace_id) for each in await store.whole_session("s")]
        await store.close()
    assert parents == [(0, None), (1, None), (1, again.trace_id), (0, first.trace_id)]


async def test_a_session_that_exists_is_not_changed_by_a_call(store: Store) -> None:
    await store.create_session(session("s", run_id="run"))
    store.begin(call("s"), session("s", run_id="other"))
    await store.finish(call("s"), timeout=5)
    assert await store.session("s") == session("s", run_id="run")


async def test_sessions_are_made_found_and_changed(store: Store) -> None:
    made = session("s", metadata={"task": [1, None]}, capture="ids", sampling={"temperature": 0.7})
    assert await store.create_session(made, b"hash") == made
    assert await store.session_by_key(b"hash") == made
    assert await store.session_by_key(b"other") is None
    assert await store.session("other") is None
    told = (Reward("r1", "reward", 1.5, datetime(2026, 11, 20, tzinfo=UTC)),)
    changed = await store.change_session("s", rewards=told, attempt=1)
    assert changed == await store.session("s") == replace(made, rewards=told, attempt=1)
    with pytest.raises(SessionExists):
        await store.create_session(made)
    with pytest.raises(SessionNotFound):
        await store.change_session("other", attempt=1)
    assert await store.session_by_key(b"hash") == changed


async def test_a_session_ends_once(store: Store) -> None:
    await store.create_session(session("s"))
    first = await store.finish_session("s")
    assert first.status == "finished"
    assert first.finished_at is not None
    assert first.finished_at > NOON - timedelta(days=3650)
    assert await store.finish_session("s", "failed") == replace(first, status="failed")


async def test_a_deleted_session_leaves_its_tombstone_alone(store: Store, place: str) -> None:
    await store.create_session(session("s"), b"hash")
    late = call("s", [1, 2, 3], [4])
    store.begin(late)
    await store.finish(call("s", [1, 2], [3]), timeout=5)
    await store.finish(call("kept", [1, 2], [3]), timeout=5)
    assert await store.delete_session("s")
    await store.finish(late, timeout=5)
    store.begin(call("s"), session("s"))
    store.pin_backend("s", "backend-1")
    await store.finish(call("s"), timeout=5)
    assert store.counts().dropped_late == 4
    assert await store.session("s") is None
    assert await store.tombstoned("s")
    assert not await store.tombstoned("kept")
    assert not await store.delete_session("s")
    with pytest.raises(SessionDeleted):
        await store.create_session(session("s"))
    with pytest.raises(SessionDeleted):
        await store.change_session("s", attempt=1)
    with behind(place) as db:
        present = MetaData()
        present.reflect(db)
        with_session = [
            (name, len(db.execute(select(table).where(table.c.session_id == "s")).all()))
            for name, table in present.tables.items()
            if "session_id" in table.c
        ]
    assert sorted(with_session) == [("deliveries", 0), ("sessions", 0), ("tombstones", 1), ("traces", 0)]


async def test_backends_that_were_added_stay(place: str) -> None:
    store = Store.open(place, gateway_id="gateway-1")
    first = StoredBackend("a", "http://a:8000", engine="vllm", models=("m", "qwen*"), api_key_env="A_KEY")
    await store.backends.put(replace(first, url="http://old:8000"))
    await store.backends.put(first)
    await store.backends.put(StoredBackend("b", "http://b:8000"))
    assert await store.backends.remove("b")
    assert not await store.backends.remove("b")
    await store.close()
    store = Store.open(place, gateway_id="gateway-2")
    assert await store.backends.every() == (first,)
    await store.close()


async def test_a_store_is_closed_once_however_often_it_is_told_to(place: str) -> None:
    store = Store.open(place, gateway_id="gateway-1")
    await store.close()
    reopened = Store.open(place, gateway_id="gateway-2")
    await store.close()
    await reopened.backends.put(StoredBackend("a", "http://a:8000"))
    await reopened.close()
