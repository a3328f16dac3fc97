"""Several gateways write to one database: what each needs to know of the others' calls it knows."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, select

from adapters.schema import Trace
from storage import sessions
from storage.batch import Batches, Written
from storage.errors import SessionExists
from storage.jobs import Finish
from storage.opening import open_database
from storage.records import EndedQuery, TraceQuery
from storage.store import Store
from storage.tables import traces
from tests.storage.conftest import on_postgres
from tests.storage.examples import call, session

pytestmark = on_postgres
ROOT = Path(__file__).parents[3]


@pytest.fixture
async def stores(place: str) -> AsyncIterator[list[Store]]:
    async with AsyncExitStack() as stack:
        opened = [Store.open(place, gateway_id=f"gateway-{number}") for number in range(3)]
        for store in opened:
            stack.push_async_callback(store.close)
        yield opened


async def of(store: Store, session_id: str) -> tuple[Trace, ...]:
    return await store.whole_session(session_id)


async def test_a_session_whose_calls_go_to_each_gateway_in_turn_is_one_chain(stores: list[Store]) -> None:
    history: list[int] = []
    written: list[Trace] = []
    for turn in range(45):
        prompt = [*history, *range(turn * 10, turn * 10 + 8)]
        trace = call("s", prompt, [turn, 7], body=b"%a" % prompt)
        store = stores[turn % 3]
        store.begin(replace(trace, status="running", choices=()), session("s"))
        await store.finish(trace, timeout=10)
        history = [*prompt, turn, 7]
        parent = (written[-1].trace_id, 0) if written else (None, None)
        written.append(replace(trace, turn=turn, parent_trace_id=parent[0], parent_index=parent[1]))
    assert list(await of(stores[0], "s")) == written
    with stores[0].database.read() as db:
        rows = db.execute(select(traces.c.depth, traces.c.base_trace_id).order_by(traces.c.turn)).all()
    # Each is stored against the one before, whoever wrote that, but for a keyframe at the 33rd link.
    assert [depth for depth, _ in rows] == [*range(33), *range(12)]
    assert [base for _, base in rows[1:33]] == [trace.trace_id for trace in written[:32]]


async def test_what_one_gateway_has_begun_before_another_ends_a_call_is_known_when_it_ends(stores: list[Store]) -> None:
    first, second = stores[:2]
    slow, quick = call("s", [1, 2], [3]), call("s", [5], [6])
    first.begin(replace(slow, status="running", choices=()), session("s"))
    while await second.trace(slow.trace_id) is None:
        await asyncio.sleep(0.01)
    await second.finish(quick, timeout=10)
    await first.finish(slow, timeout=10)
    after = call("s", [1, 2, 3, 4], [5])
    await second.finish(after, timeout=10)
    found = {trace.trace_id: trace for trace in await of(second, "s")}
    assert {trace_id: trace.turn for trace_id, trace in found.items()} == {
        slow.trace_id: 0,
        quick.trace_id: 1,
        after.trace_id: 2,
    }
    assert found[after.trace_id].parent_trace_id == slow.trace_id


async def test_calls_of_one_session_at_once_have_turns_of_their_own(stores: list[Store]) -> None:
    names = [f"s{number}" for number in range(7)]

    async def one(number: int) -> None:
        store, trace = random.choice(stores), call(random.choice(names), [number], [1])
        store.begin(replace(trace, status="running", choices=()), session(trace.session_id))
        await asyncio.sleep(random.random() / 20)
        await store.finish(trace, timeout=20)

    await asyncio.gather(*(one(number) for number in range(600)))
    while not all([await store.complete() for store in stores]):  # A slow machine spools some of them.
        await asyncio.sleep(0.05)
    found = (await stores[0].traces(TraceQuery(limit=1_000))).items
    assert len(found) == 600
    for name in names:
        turns = [trace.turn for trace in found if trace.session_id == name]
        assert sorted(turns) == list(range(len(turns)))


async def test_a_session_that_another_makes_and_goes_on_with_while_its_first_call_is_written_has_a_turn_for_each(
    place: str, stores: list[Store]
) -> None:
    """It is made after we looked for it to hold it, and written to once more after we asked for its next turn."""
    theirs = [call("s", [1], [2]), call("s", [3], [4])]
    with writer(place) as (our_db, ours), writer(place) as (their_db, others):

        def they_write(*, is_before: bool, statement: str) -> None:
            if "max(traces.turn)" in statement and len(theirs) == 1 + is_before:
                with their_db.begin():
                    others.write(their_db, [Finish(1, theirs.pop(0), None, session("s"))])

        event.listen(our_db, "before_cursor_execute", lambda *told: they_write(is_before=True, statement=told[2]))
        event.listen(our_db, "after_cursor_execute", lambda *told: they_write(is_before=False, statement=told[2]))
        with our_db.begin():
            ours.write(our_db, [Finish(1, call("s", [5], [6]), None, session("s"))])
    assert theirs == []
    assert [trace.turn for trace in await of(stores[0], "s")] == [0, 1, 2]


async def test_a_session_that_another_makes_and_deletes_while_its_first_call_is_written_stays_deleted(
    place: str, stores: list[Store]
) -> None:
    """As it does to a process that stood still between its look for the session and making it."""
    theirs = [call("s", [1], [2])]
    with writer(place) as (our_db, ours), writer(place) as (their_db, others):

        def they_delete(statement: str) -> None:
            if "max(traces.turn)" in statement and theirs:
                with their_db.begin():
                    others.write(their_db, [Finish(1, theirs.pop(), None, session("s"))])
                with their_db.begin():
                    assert sessions.remove(their_db, "s")

        event.listen(our_db, "after_cursor_execute", lambda *told: they_delete(told[2]))
        with our_db.begin():
            written = ours.write(our_db, [Finish(1, call("s", [5], [6]), None, session("s"))])
    assert written == Written(finished=0, dropped_late=1, dropped_traces=1)
    assert await stores[0].session("s") is None
    assert await of(stores[0], "s") == ()


@contextmanager
def writer(place: str) -> Iterator[tuple[Connection, Batches]]:
    database = open_database(place)
    try:
        with database.write_connection() as db:
            yield db, Batches(database)
    finally:
        database.close()


async def test_a_session_that_one_gateway_deletes_gets_nothing_more_from_another(stores: list[Store]) -> None:
    for number in range(25):
        name = f"s{number}"
        await stores[0].finish(call(name), timeout=10)
        late = [call(name) for _ in range(6)]
        ends = [store.finish(trace, timeout=10) for store, trace in zip(stores * 2, late, strict=True)]
        deleted, *_ = await asyncio.gather(stores[1].delete_session(name), *ends)
        assert deleted
        assert await of(stores[2], name) == ()
    assert sum(store.counts().dropped_late for store in stores) > 0


async def test_who_makes_a_session_that_another_makes_at_the_same_time_is_told(stores: list[Store]) -> None:
    for number in range(20):
        name = f"s{number}"
        made = await asyncio.gather(
            *(store.create_session(session(name, run_id=str(at))) for at, store in enumerate(stores)),
            return_exceptions=True,
        )
        assert Counter(type(each) for each in made)[SessionExists] == 2
        assert [each for each in made if not isinstance(each, SessionExists)] == [await stores[0].session(name)]


async def test_sessions_that_end_at_different_gateways_have_one_order_that_misses_none(stores: list[Store]) -> None:
    names = [f"s{number}" for number in range(60)]
    await asyncio.gather(*(random.choice(stores).create_session(session(name)) for name in names))
    seen: list[str] = []

    async def follow() -> None:
        cursor = None
        while len(seen) < len(names):
            page = await stores[2].ended_sessions(EndedQuery(cursor=cursor, limit=7))
            seen.extend(each.session_id for each in page.items)
            cursor = page.next

    following = asyncio.create_task(follow())
    await asyncio.gather(*(random.choice(stores).finish_session(name) for name in names))
    await asyncio.wait_for(following, 20)
    assert sorted(seen) == sorted(names)


async def test_a_trace_that_two_gateways_bring_is_there_once(stores: list[Store]) -> None:
    trace = call("s", [1], [2])
    await asyncio.gather(*(store.finish(trace, timeout=10) for store in stores))
    assert list(await of(stores[0], "s")) == [replace(trace, turn=0)]


_WRITER = """
import asyncio, random, sys
from dataclasses import replace
from pathlib import Path
from storage.store import Store
from tests.storage.examples import call, session

async def chain(store, number):
    # Its own conversation in a session that all writers have part in.
    history, before = [number, 77], None
    name = f"s{number % 12}"
    for turn in range(15):
        prompt = [*history, turn, number]
        trace = call(name, prompt, [turn, turn], body=b"%a" % prompt)
        store.begin(replace(trace, status="running", choices=()), session(name))
        await asyncio.sleep(random.random() / 50)
        await store.finish(trace, timeout=60)
        sys.stdout.write(f"{name} {trace.trace_id} {before} {prompt}\\n".replace(", ", ","))
        sys.stdout.flush()
        history, before = [*prompt, turn, turn], trace.trace_id

async def main(url, spool, writer):
    store = Store.open(url, gateway_id=f"gateway-{writer}", spool=Path(spool))
    await asyncio.gather(*(chain(store, writer * 100 + number) for number in range(20)))
    await store.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


async def test_what_four_processes_acknowledged_is_there_once_and_right_when_one_of_them_was_killed(
    place: str, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    told, acknowledged = await asyncio.to_thread(written_by_four, place, spool)
    assert acknowledged > 3 * 20 * 15
    store = Store.open(place, gateway_id="reader", spool=spool)
    while store.counts().spool_depth:  # On a slow machine the one that was killed may have had some there.
        await asyncio.sleep(0.02)
    found = {trace.trace_id: trace for trace in (await store.traces(TraceQuery(limit=10_000))).items}
    await store.close()
    for name, trace_id, before, prompt in told:
        trace = found[trace_id]
        assert (trace.session_id, trace.status) == (name, "ok")
        assert trace.parent_trace_id == (None if before == "None" else before)
        assert str(list(trace.prompt_token_ids or ())).replace(", ", ",") == prompt
    turns = Counter((trace.session_id, trace.turn) for trace in found.values())
    assert max(turns.values()) == 1


def written_by_four(place: str, spool: Path) -> tuple[list[list[str]], int]:
    """What they told, of which one was killed amid its work."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, place, str(spool), str(number)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for number in range(4)
    ]
    lines: list[str] = []
    victim = writers[0]
    assert victim.stdout is not None
    lines += [victim.stdout.readline() for _ in range(100)]
    victim.send_signal(signal.SIGKILL)
    for writer in writers:
        with writer:
            assert writer.stdout is not None
            lines += writer.stdout.readlines()
    assert [writer.returncode for writer in writers] == [-signal.SIGKILL, 0, 0, 0]
    told = [line.split() for line in lines if line.endswith("\n")]
    return told, len(told)
