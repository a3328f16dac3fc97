"""What a session has used up, told by its rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import update

from adapters.schema import RecordedRequest, Usage
from storage.store import Store
from storage.tables import traces
from storage.usage import Usage as UsedUp
from tests.storage.behind import behind
from tests.storage.examples import NOON, call


async def recorded(store: Store, *traces: Any) -> None:
    for trace in traces:
        await store.finish(trace, timeout=10)


def used(prompt: int, sampled: int, **fields: Any) -> Any:
    return replace(call("s1", **fields), usage=Usage(prompt_tokens=prompt, completion_tokens=sampled))


async def test_nothing_is_used_up_at_first(store: Store) -> None:
    assert await store.usage("s1", 0) == UsedUp()


async def test_calls_and_tokens_are_counted_as_the_engine_counted_them(store: Store) -> None:
    await recorded(store, used(100, 10), used(120, 30, started_at=NOON - timedelta(seconds=9)), call("s2", [1], [2]))
    assert await store.usage("s1", 0) == UsedUp(2, 220, 40, NOON - timedelta(seconds=9))


async def test_what_no_engine_counted_is_counted_by_the_ids_that_were_told(store: Store) -> None:
    await recorded(store, call("s1", [1, 2, 3], [4, 5], [6]))
    assert await store.usage("s1", 0) == UsedUp(1, 3, 3, NOON)


async def test_a_count_that_can_be_true_of_no_call_costs_no_trace(store: Store) -> None:
    absurd = replace(call("s1", [1, 2, 3], [4, 5]), usage=Usage(prompt_tokens=2**31, completion_tokens=2**80))
    await recorded(store, absurd)
    assert await store.usage("s1", 0) == UsedUp(1, 3, 2, NOON)
    (trace,) = await store.whole_session("s1")
    assert trace.usage == absurd.usage


async def test_a_failed_call_is_no_call_but_its_tokens_are(store: Store) -> None:
    await recorded(store, used(5, 3, status="backend_error"), used(5, 2, status="client_disconnected"))
    assert await store.usage("s1", 0) == UsedUp(1, 10, 5, NOON)


async def test_aux_and_refused_calls_are_no_steps(store: Store) -> None:
    await recorded(store, used(5, 3, purpose="aux"), used(0, 0, status="rejected"))
    assert await store.usage("s1", 0) == UsedUp()


async def test_each_attempt_has_its_own(store: Store) -> None:
    await recorded(store, used(5, 3), used(7, 2, attempt=1))
    assert await store.usage("s1", 0) == UsedUp(1, 5, 3, NOON)
    assert await store.usage("s1", 1) == UsedUp(1, 7, 2, NOON)


async def test_calls_that_run_are_named(store: Store) -> None:
    running = call("s1", status="running")
    store.begin(running)
    await recorded(store, used(5, 3))
    found = await store.usage("s1", 0)
    assert (found.calls, found.running) == (1, {running.trace_id})


async def test_traces_from_before_rows_told_their_tokens_are_read_for_it(store: Store, place: str) -> None:
    await recorded(store, used(100, 10), used(120, 30))
    with behind(place) as db:
        db.execute(update(traces).where(traces.c.turn == 0).values(prompt_tokens=None, completion_tokens=None))
    assert await store.usage("s1", 0) == UsedUp(2, 220, 40, NOON)


async def test_the_latest_call_of_an_idempotency_key_is_found(store: Store) -> None:
    first, second, other = (
        replace(call(session_id), request=RecordedRequest(b"{}", {"idempotency-key": "k"}))
        for session_id in ("s1", "s1", "s2")
    )
    await recorded(store, other, first, second, call("s1"))
    assert await store.latest_of_key("s1", "k") == second.trace_id
    assert await store.latest_of_key("s1", "another") is None


async def test_a_call_that_runs_is_found_by_its_key_too(store: Store) -> None:
    running = replace(call("s1", status="running"), request=RecordedRequest(None, {"idempotency-key": "k"}))
    store.begin(running)
    await recorded(store, call("s1"))
    assert await store.latest_of_key("s1", "k") == running.trace_id
