from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, update

from adapters.schema import Trace
from storage.errors import BadCursor
from storage.queries import page
from storage.records import Page, SessionQuery, TraceQuery
from storage.store import Store
from storage.tables import traces as rows
from tests.storage.behind import behind
from tests.storage.examples import NOON, call, session


async def every(store: Store, **query: Any) -> list[Trace]:
    """All pages, one item each."""
    found: list[Trace] = []
    cursor = None
    while True:
        part = await store.traces(TraceQuery(**query, limit=1, cursor=cursor))
        found += part.items
        cursor = part.next
        if cursor is None:
            return found


async def test_pages_of_a_session_follow_its_turns_without_gap_or_double(store: Store) -> None:
    calls = [call("s" if number % 2 else "t") for number in range(9)]
    for one in reversed(calls):
        await store.finish(one, timeout=5)
    assert [trace.turn for trace in await every(store, session_id="s")] == [0, 1, 2, 3]
    whole = await store.traces(TraceQuery(session_id="s"))
    assert list(whole.items) == await every(store, session_id="s")
    assert whole.next is None


async def test_pages_over_sessions_follow_the_traces_ids(store: Store) -> None:
    calls = [call(f"s{number % 3}") for number in range(9)]
    for one in reversed(calls):
        await store.finish(one, timeout=5)
    assert [trace.trace_id for trace in await every(store)] == [one.trace_id for one in calls]


FOUND_BY: list[tuple[dict[str, Any], set[str]]] = [
    ({"session_id": "b"}, {"2", "3"}),
    ({"run_id": "run-1"}, {"1", "2", "3"}),
    ({"run_id": ""}, {"4"}),
    ({"run_id": "run-1", "group_id": "group-2"}, {"2", "3"}),
    ({"group_id": "group-1"}, {"1"}),
    ({"session_id": "b", "run_id": "run-2"}, set()),
    ({"model": "alias"}, {"1"}),
    ({"model": "weights"}, {"1", "4"}),
    ({"engine": "sglang"}, {"2"}),
    ({"backend": "b1"}, {"3"}),
    ({"status": "backend_error"}, {"3"}),
    ({"fidelity": "partial"}, {"4"}),
    ({"weight_version": "7"}, {"2"}),
    ({"purpose": "aux"}, {"1"}),
    ({"dialect": "completions"}, {"4"}),
    ({"since": NOON}, {"1", "2", "3"}),
    ({"until": NOON}, {"4"}),
    ({"since": NOON, "until": NOON + timedelta(microseconds=1)}, {"1", "2"}),
]


async def test_traces_are_found_by_each_filter(store: Store) -> None:
    await store.create_session(session("a", run_id="run-1", group_id="group-1"))
    await store.create_session(session("b", run_id="run-1", group_id="group-2"))
    for one in (
        call("a", trace_id="1", model="alias", served_model="weights", purpose="aux"),
        call("b", trace_id="2", engine="sglang", weight_version="7"),
        call("b", trace_id="3", backend="b1", status="backend_error", started_at=NOON + timedelta(hours=1)),
        call(
            "c",
            trace_id="4",
            model="weights",
            fidelity="partial",
            dialect="completions",
            started_at=NOON - timedelta(microseconds=1),
        ),
    ):
        await store.finish(one, timeout=5)
    for query, expected in FOUND_BY:
        at_once = (await store.traces(TraceQuery(**query))).items
        assert {trace.trace_id for trace in at_once} == expected, query
        assert {trace.trace_id for trace in await every(store, **query)} == expected, query


async def test_a_page_ends_when_its_bytes_are_many(store: Store) -> None:
    for _ in range(5):
        await store.finish(call("s", body=b"x" * 1_000_000), timeout=5)
    with store.database.read() as db:
        first = page(db, TraceQuery(session_id="s", page_bytes=1_500_000))
        second = page(db, TraceQuery(session_id="s", cursor=first.next, page_bytes=1_500_000))
        third = page(db, TraceQuery(session_id="s", cursor=second.next, page_bytes=1_500_000))
    assert [[trace.turn for trace in part.items] for part in (first, second, third)] == [[0, 1], [2, 3], [4]]
    assert third.next is None


async def test_a_trace_is_found_by_its_id_and_only_in_its_session(store: Store) -> None:
    trace = call("s")
    await store.finish(trace, timeout=5)
    assert await store.trace(trace.trace_id, "s") is not None
    assert await store.trace(trace.trace_id, "t") is None
    assert await store.trace("other") is None


async def test_a_trace_that_cannot_be_read_back_stands_among_the_others_and_is_exact_in_nothing(
    store: Store, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    written = [call(name, [1, 2], [3], body=b"abc" * 300, model="m") for name in ("a", "b", "b", "b", "c")]
    for one in written:
        await store.finish(one, timeout=5)
    base, *damaged = (one.trace_id for one in written[1:4])
    with behind(place) as db:
        db.execute(delete(rows).where(rows.c.trace_id == base))
    before, *unreadable, after = (await store.traces(TraceQuery())).items
    assert [message.count(damaged[0]) for message in caplog.messages] == [1]
    assert (before.fidelity, after.fidelity, before.choices) == ("exact", "exact", written[0].choices)
    assert [(one.trace_id, one.turn, one.model) for one in unreadable] == [(damaged[0], 1, "m"), (damaged[1], 2, "m")]
    for one in unreadable:
        assert (one.fidelity, one.logprobs_fidelity) == ("none", "none")
        assert one.fidelity_reason == one.logprobs_reason == f"can't be read back: its base {base} is missing"
        assert (one.request.body, one.prompt_token_ids, one.choices) == (None, None, ())
    assert await every(store) == [before, *unreadable, after]
    assert await every(store, session_id="b") == unreadable
    assert list(await store.latest_traces("b", 1)) == unreadable[1:]


async def test_where_no_payload_is_wanted_none_is_read(store: Store, place: str) -> None:
    written = [call("s", [1, 2], [3], model="m", fidelity_reason="told") for _ in range(3)]
    for one in written:
        await store.finish(one, timeout=5)
    with behind(place) as db:
        db.execute(update(rows).values(text=b"\x07"))
    assert [(one.trace_id, one.model, one.choices) for one in await every(store, session_id="s", payloads=False)] == [
        (one.trace_id, "m", ()) for one in written
    ]


@pytest.mark.parametrize("cursor", ["", "x", "WzFd", "é", "bnVsbA", "WyJhIiwgMV0"])
async def test_a_cursor_of_another_list_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(BadCursor):
        await store.traces(TraceQuery(session_id="s", cursor=cursor))
    with pytest.raises(BadCursor):
        await store.traces(TraceQuery(cursor=cursor))
    with pytest.raises(BadCursor):
        await store.sessions(SessionQuery(cursor=cursor))


def test_an_empty_page_can_not_be_asked_for() -> None:
    with pytest.raises(ValueError, match="0 items"):
        TraceQuery(limit=0)
    with pytest.raises(ValueError, match="-1 items"):
        SessionQuery(limit=-1)


async def test_sessions_are_listed_by_creation(store: Store) -> None:
    made = [
        session("d", created_at=NOON, run_id="run-1"),
        session("c", created_at=NOON + timedelta(seconds=1), run_id="run-1", group_id="g"),
        session("b", created_at=NOON + timedelta(seconds=1), purpose="eval"),
        session("a", created_at=NOON + timedelta(seconds=2), run_id="run-1", implicit=True),
    ]
    for one in made:
        await store.create_session(one)
    await store.finish_session("c")

    async def listed(**query: Any) -> str:
        found, cursor = "", None
        while True:
            part = await store.sessions(SessionQuery(**query, limit=1, cursor=cursor))
            found += "".join(one.session_id for one in part.items)
            cursor = part.next
            if cursor is None:
                return found

    assert await listed() == "dbca"
    assert await listed(run_id="run-1") == "dca"
    assert await listed(run_id="run-1", implicit=False) == "dc"
    assert await listed(group_id="g") == "c"
    assert await listed(status="finished") == "c"
    assert await listed(purpose="eval") == "b"
    assert await listed(purpose="train") == "dca"
    assert await listed(run_id="") == "b"
    assert await listed(since=NOON + timedelta(seconds=1), until=NOON + timedelta(seconds=2)) == "bc"
    assert (await store.sessions(SessionQuery())).next is None


async def test_where_a_list_of_so_many_ends_is_known_before_any_of_it_is_read(store: Store) -> None:
    for number in range(5):
        await store.finish(call(f"s{number % 2}"), timeout=5)
    queries: list[dict[str, Any]] = [{}, {"session_id": "s0"}]
    for where in queries:
        whole = (await store.traces(TraceQuery(**where))).items
        for limit in range(1, len(whole)):
            end = await store.traces_end(TraceQuery(**where, limit=limit))
            assert (await store.traces(TraceQuery(**where, end=end))) == Page(whole[:limit])
            assert (await store.traces(TraceQuery(**where, cursor=end))).items == whole[limit:]
        behind = await store.traces_end(TraceQuery(**where))
        assert (await store.traces(TraceQuery(**where, cursor=behind))).items == ()
        assert await store.traces_end(TraceQuery(**where, cursor=behind)) is None
