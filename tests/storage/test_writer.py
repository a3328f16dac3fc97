from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection

from adapters.schema import Choice, RecordedRequest
from storage.durability import DEFAULT_DURABILITY
from storage.errors import CannotRecord, Unavailable
from storage.records import TraceQuery
from storage.sqlite import SqliteDatabase
from storage.store import Store
from tests.storage.conftest import on_sqlite
from tests.storage.examples import call, session


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Somebody else is writing to the file, and does not stop."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


async def until(store: Store, *, unable: bool) -> None:
    async with asyncio.timeout(20):
        while (store.counts().unable is not None) != unable:
            await asyncio.sleep(0.02)


async def drained(store: Store) -> None:
    async with asyncio.timeout(20):
        while store.counts().spool_bytes:
            await asyncio.sleep(0.02)


async def test_many_calls_share_a_transaction(store: Store) -> None:
    calls = [call(f"s{number}", [1], [2]) for number in range(200)]
    for one in calls:
        store.begin(one)
    await asyncio.gather(*(store.finish(one, timeout=20) for one in calls))
    counts = store.counts()
    assert (counts.begun, counts.finished, counts.committed, counts.queued, counts.queued_bytes) == (
        200,
        200,
        200,
        0,
        0,
    )
    assert counts.commits < 10
    assert counts.oldest_queued_ms is None


async def test_a_row_that_can_not_be_written_fails_alone(store: Store) -> None:
    good = [call("s", [number], [2]) for number in range(20)]
    bad = call("s", metadata={"not": object()})
    too_long = call("s", http_status=2**80)
    ends = await asyncio.gather(
        *(store.finish(one, timeout=20) for one in [*good[:10], bad, too_long, *good[10:]]), return_exceptions=True
    )
    assert [type(end) for end in ends] == [*[type(None)] * 10, CannotRecord, CannotRecord, *[type(None)] * 10]
    assert bad.trace_id in str(ends[10])
    found = await store.traces(TraceQuery(session_id="s"))
    assert [trace.trace_id for trace in found.items] == [one.trace_id for one in good]
    assert store.counts().refused == 2


async def test_a_begin_that_can_not_be_written_does_not_stop_its_end(store: Store) -> None:
    trace = call("s", [1], [2])
    store.begin(call("s", trace_id=trace.trace_id, metadata={"not": object()}))
    await asyncio.sleep(0.1)
    await store.finish(trace, timeout=20)
    assert await store.trace(trace.trace_id) is not None


@on_sqlite
async def test_a_locked_database_makes_no_call_wait_and_loses_none(store: Store, tmp_path: Path) -> None:
    first, second, running = call("s", [1], [2]), call("s", [1, 2], [3]), call("s", status="running")
    with locked(tmp_path / "rollouts.db"):
        await store.finish(first, timeout=0.05)
        assert store.counts().spool_depth == 1
        await until(store, unable=True)
        assert "locked" in str(store.counts().unable)
        store.begin(running)
        await store.finish(second, timeout=3600)
        assert (store.counts().queued, store.counts().spool_depth, store.unable()) == (0, 2, None)
        assert not await store.complete()
    await drained(store)
    assert store.counts().unable is None
    found = await store.traces(TraceQuery(session_id="s"))
    assert [(trace.trace_id, trace.turn, trace.status) for trace in found.items] == [
        (first.trace_id, 0, "ok"),
        (running.trace_id, 1, "running"),
        (second.trace_id, 2, "ok"),
    ]
    assert found.items[2].parent_trace_id == first.trace_id
    assert (store.counts().finished, store.counts().committed) == (2, 2)
    assert await store.complete()


@on_sqlite
async def test_a_command_is_told_that_the_database_is_locked(store: Store, tmp_path: Path) -> None:
    with locked(tmp_path / "rollouts.db"), pytest.raises(Unavailable, match="locked"):
        await store.create_session(session("s"))
    await store.create_session(session("s"))


@on_sqlite
async def test_an_idle_writer_finds_out_by_itself_that_the_database_is_back(store: Store, tmp_path: Path) -> None:
    with locked(tmp_path / "rollouts.db"), pytest.raises(Unavailable):
        await store.create_session(session("s"))
    await until(store, unable=False)
    store.begin(call("s"))
    assert store.counts().queued == 1


async def test_what_the_queue_has_no_room_for_goes_into_the_spool(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "a.db", gateway_id="gateway-1", queue_bytes=30_000)
    with locked(tmp_path / "a.db"):
        ends = [asyncio.create_task(store.finish(call("s", body=b"x" * 9_000), timeout=3600)) for _ in range(9)]
        await asyncio.gather(*ends)
    await drained(store)
    assert store.counts().committed == 9
    await store.close()


async def test_a_waiter_that_went_away_leaves_its_row(store: Store) -> None:
    trace = call("s", [1], [2])
    task = asyncio.create_task(store.finish(trace, timeout=20))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.finish(call("s"), timeout=20)
    assert await store.trace(trace.trace_id) is not None


async def test_closing_writes_what_is_queued(place: str) -> None:
    store = Store.open(place, gateway_id="gateway-1")
    calls = [call("s", status="running") for _ in range(50)]
    for one in calls:
        store.begin(one)
    await store.close()
    with pytest.raises(CannotRecord, match="ended"):
        store.begin(call("s"))
    store = Store.open(place, gateway_id="gateway-2")
    assert len((await store.traces(TraceQuery(session_id="s"))).items) == 50
    await store.close()


class Crashing(SqliteDatabase):
    """A database that ends the writer's work in the midst of a batch, with no error that anyone handles."""

    crashes = 0

    @property
    def exclusive(self) -> bool:
        if self.crashes:
            self.crashes -= 1
            raise SystemExit("crash")
        return True


async def test_a_writer_that_crashes_starts_again_with_what_it_had(tmp_path: Path) -> None:
    database = Crashing.at(tmp_path / "a.db", DEFAULT_DURABILITY)
    store = Store.start(database, gateway_id="gateway-1", spool=tmp_path / "spool")
    await store.finish(call("s"), timeout=20)
    database.crashes = 3
    trace = call("s", [1], [2])
    await store.finish(trace, timeout=20)
    assert store.counts().writer_restarts == 3
    assert store.counts().writer_alive
    assert await store.trace(trace.trace_id) is not None
    await store.close()
    assert not store.counts().writer_alive


class Slow(SqliteDatabase):
    """A database whose every read waits until the event loop has done something else."""

    reading: threading.Event
    goes_on: threading.Event

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with super().read() as db:
            self.reading.set()
            assert self.goes_on.wait(20), "the event loop does nothing else while it is read"
            yield db


async def test_a_page_is_read_and_decoded_off_the_event_loop(tmp_path: Path) -> None:
    database = Slow.at(tmp_path / "a.db", DEFAULT_DURABILITY)
    database.reading, database.goes_on = threading.Event(), threading.Event()
    store = Store.start(database, gateway_id="gateway-1", spool=tmp_path / "spool")
    await store.finish(call("s", list(range(1000)), [1]), timeout=20)
    reading = asyncio.create_task(store.traces(TraceQuery(session_id="s")))
    while not database.reading.is_set():
        await asyncio.sleep(0.01)
    database.goes_on.set()
    assert len((await reading).items) == 1
    await store.close()


def test_begin_costs_the_event_loop_little(tmp_path: Path) -> None:
    """Counted in calls, for they are the same on every machine: a body or a database would take hundreds."""

    async def calls_of_a_begin() -> float:
        store = Store.open(tmp_path / "a.db", gateway_id="gateway-1")
        calls = [call("s", request=RecordedRequest(b"x" * 5_000), choices=(Choice(0),)) for _ in range(300)]
        events: Counter[str] = Counter()
        sys.setprofile(lambda frame, event, argument: events.update([event]))
        for one in calls:
            store.begin(one)
        sys.setprofile(None)
        await store.close()
        return (events["call"] + events["c_call"]) / len(calls)

    assert asyncio.run(calls_of_a_begin()) < 50
