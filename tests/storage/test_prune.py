"""What is over and old is deleted whole, beside the calls; and nothing else is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, func, insert, select

from storage import prune
from storage.errors import SessionDeleted
from storage.opening import open_database
from storage.prune import CLAIMS_KEPT, TOMBSTONES_KEPT, PruneQuery, stored_bytes
from storage.records import ClaimRequest, TraceQuery
from storage.sizes import RunSize, added, weigh
from storage.sqlite import SqliteDatabase
from storage.store import Store
from storage.tables import claims, deliveries, gateways, sessions, tombstones, traces
from storage.upkeep import Pruned
from tests.postgres import Postgres
from tests.storage.examples import NOON, call, session

DAY = timedelta(days=1)
MONTH_AGO = PruneQuery(older_than=30 * DAY)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'rollouts.db'}"
    postgres = request.getfixturevalue("postgres")
    assert isinstance(postgres, Postgres)
    return postgres.database()


@asynccontextmanager
async def opened(place: str, now: datetime = NOON) -> AsyncIterator[Store]:
    store = Store.start(open_database(place), gateway_id="gateway-1", clock=lambda _: now)
    yield store
    await store.close()


@pytest.fixture
async def store(place: str) -> AsyncIterator[Store]:
    async with opened(place) as store:
        yield store


async def rollout(store: Store, session_id: str, age: timedelta, *, status: Any = "finished", **fields: Any) -> None:
    """A session whose one call, and its end, were so long ago."""
    then = NOON - age
    made = session(session_id, created_at=then, **fields)
    trace = call(session_id, [1, 2], [3], body=b"x" * 600, started_at=then)
    store.begin(trace, made)
    await store.finish(trace, timeout=10)
    if status != "open":
        await store.change_session(session_id, status=status, finished_at=then)


async def ids(store: Store) -> list[str]:
    with store.database.read() as db:
        return list(db.scalars(select(sessions.c.session_id).order_by(sessions.c.session_id)))


def count(store: Store, table: Table) -> int:
    with store.database.read() as db:
        return db.scalar(select(func.count()).select_from(table)) or 0


async def test_old_sessions_go_with_all_that_is_theirs_and_leave_a_tombstone(store: Store) -> None:
    await rollout(store, "old", 31 * DAY, run_id="r")
    await rollout(store, "young", 29 * DAY, run_id="r")
    with store.database.read() as db:
        stored = db.scalar(select(stored_bytes()).where(traces.c.session_id == "old"))
    expected = Pruned(sessions=1, traces=1, bytes=stored or 0, undelivered=1)
    assert await store.upkeep.preview(MONTH_AGO) == expected
    assert await ids(store) == ["old", "young"]
    pruned = await store.upkeep.prune(MONTH_AGO, seconds=60)
    assert (pruned.sessions, pruned.traces, pruned.bytes, pruned.more) == (1, 1, stored, False)
    assert await ids(store) == ["young"]
    assert [trace.session_id for trace in (await store.traces(TraceQuery())).items] == ["young"]
    assert await store.tombstoned("old")
    with pytest.raises(SessionDeleted):
        await store.find_session("old")


async def test_what_is_written_for_it_afterwards_is_dropped(store: Store) -> None:
    await rollout(store, "old", 31 * DAY)
    await store.upkeep.prune(MONTH_AGO, seconds=60)
    late = call("old", [1], [2])
    store.begin(late, session("old"))
    await store.finish(late, timeout=10)
    assert await ids(store) == []
    assert count(store, traces) == 0


@pytest.mark.parametrize(
    ("why", "fields"),
    [
        ("it is open", {"status": "open"}),
        ("it was aborted, and failed ones are asked for", {"status": "aborted", "run_id": "failed-only"}),
    ],
)
async def test_a_session_of_another_status_stays(store: Store, why: str, fields: dict[str, Any]) -> None:
    await rollout(store, "old", 31 * DAY, **fields)
    query = MONTH_AGO if fields["status"] == "open" else PruneQuery(run_id="failed-only", statuses=("failed",))
    assert (await store.upkeep.prune(query, seconds=60)).sessions == 0
    assert await ids(store) == ["old"], why


async def test_an_open_session_goes_where_that_is_asked_for(store: Store) -> None:
    await rollout(store, "old", 31 * DAY, status="open")
    query = PruneQuery(older_than=MONTH_AGO.older_than, statuses=("open",))
    assert (await store.upkeep.prune(query, seconds=60)).sessions == 1


async def test_a_call_that_named_no_session_goes_as_a_finished_one(store: Store) -> None:
    await rollout(store, "implicit", 31 * DAY, status="open", implicit=True)
    assert (await store.upkeep.prune(PruneQuery(MONTH_AGO.older_than, statuses=("failed",)), seconds=60)).sessions == 0
    assert (await store.upkeep.prune(MONTH_AGO, seconds=60)).sessions == 1


async def test_a_session_is_as_young_as_its_last_call_and_one_that_is_at_work_stays(store: Store) -> None:
    await rollout(store, "goes on", 31 * DAY)
    trace = call("goes on", [1, 2, 3, 4], [5], started_at=NOON)
    store.begin(trace)
    await store.finish(trace, timeout=10)
    await rollout(store, "at work", DAY, run_id="r")
    store.begin(call("at work", [1], status="running", started_at=NOON - DAY))
    await store.change_session("at work", metadata={})  # What was queued before is written.
    assert (await store.upkeep.prune(MONTH_AGO, seconds=60)).sessions == 0
    assert (await store.upkeep.prune(PruneQuery(run_id="r"), seconds=60)).sessions == 0


@pytest.mark.parametrize("change", ["a call", "claimed", "open again"])
async def test_what_is_no_more_one_of_them_when_its_turn_comes_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Minutes lie between finding and deleting, where there are many."""
    found, changed, find = threading.Event(), threading.Event(), prune.find

    def find_early(*args: Any) -> Any:
        result = find(*args)
        found.set()
        assert changed.wait(20)
        return result

    monkeypatch.setattr(prune, "find", find_early)
    await rollout(store, "s", 31 * DAY, run_id="r")
    pruning = asyncio.create_task(store.upkeep.prune(MONTH_AGO, seconds=60))
    assert await asyncio.to_thread(found.wait, 20)
    if change == "a call":
        store.begin(call("s", [1, 2, 3, 4], status="running", started_at=NOON - 31 * DAY))
        await store.change_session("s", metadata={})  # What was queued before is written.
    elif change == "claimed":
        assert await store.claims.take(ClaimRequest(consumer="trainer")) is not None
    else:
        await store.change_session("s", status="open")
    changed.set()
    assert (await pruning).sessions == 0
    assert await ids(store) == ["s"]


async def test_a_run_goes_by_its_name_and_that_of_no_run_by_an_empty_one(store: Store) -> None:
    await rollout(store, "a", DAY, run_id="r")
    await rollout(store, "b", DAY, run_id="other")
    await rollout(store, "c", DAY)
    assert (await store.upkeep.prune(PruneQuery(run_id="r"), seconds=60)).sessions == 1
    assert await ids(store) == ["b", "c"]
    assert (await store.upkeep.prune(PruneQuery(run_id=""), seconds=60)).sessions == 1
    assert await ids(store) == ["b"]


def test_with_neither_age_nor_run_everything_would_go_and_nothing_does() -> None:
    with pytest.raises(ValueError, match="this would delete everything"):
        PruneQuery()


async def test_what_a_trainer_works_on_stays_and_what_it_has_had_can_be_asked_for(place: str) -> None:
    async with opened(place) as store:
        for name in ("had", "held", "free"):
            await rollout(store, name, 31 * DAY)
        had = await store.claims.take(ClaimRequest(consumer="trainer"))
        held = await store.claims.take(ClaimRequest(consumer="trainer"))
        assert had is not None
        assert held is not None
        await store.claims.acknowledge(had.claim_id)
        delivered = await store.upkeep.prune(PruneQuery(MONTH_AGO.older_than, delivered_to="trainer"), seconds=60)
        assert (delivered.sessions, delivered.undelivered) == (1, 0)
        pruned = await store.upkeep.prune(MONTH_AGO, seconds=60)
        assert (pruned.sessions, pruned.undelivered) == (1, 1)
        assert await ids(store) == list(held.session_ids)
    async with opened(place, NOON + DAY) as store:
        assert (await store.upkeep.prune(MONTH_AGO, seconds=60)).sessions == 1


async def test_when_the_time_is_up_it_says_that_there_is_more(store: Store) -> None:
    for number in range(5):
        await rollout(store, f"old-{number}", 31 * DAY)
    first = await store.upkeep.prune(MONTH_AGO, seconds=0)
    assert (first.sessions, first.more) == (1, True)
    rest = await store.upkeep.prune(MONTH_AGO, seconds=60)
    assert (rest.sessions, rest.more) == (4, False)


async def test_what_deleted_sessions_leave_behind_goes_when_nobody_can_ask_for_it(place: str) -> None:
    database = open_database(place)
    with database.write_connection() as db, db.begin():
        for name, age in (("a", TOMBSTONES_KEPT + DAY), ("b", TOMBSTONES_KEPT - DAY)):
            db.execute(insert(tombstones), {"session_id": name, "deleted_at": NOON - age})
        claim = {"consumer": "t", "unit": "session", "status": "acknowledged"}
        for name, age in (("old", CLAIMS_KEPT + DAY), ("young", DAY), ("kept", CLAIMS_KEPT + DAY)):
            db.execute(insert(claims), claim | {"claim_id": name, "leased_until": NOON - age})
        kept = {"session_id": "s", "consumer": "t", "claim_id": "kept", "delivered_at": NOON}
        db.execute(insert(deliveries), kept)
        for name, depth in (("gone", 0), ("left a spool", 3)):
            row = {"gateway_id": name, "heartbeat_at": NOON - 2 * DAY, "spool_depth": depth}
            db.execute(insert(gateways), row)
    database.close()
    async with opened(place) as store:
        await store.upkeep.prune(MONTH_AGO, seconds=60)
        with store.database.read() as db:
            assert list(db.scalars(select(tombstones.c.session_id))) == ["b"]
            assert sorted(db.scalars(select(claims.c.claim_id))) == ["kept", "young"]
            assert sorted(set(db.scalars(select(gateways.c.gateway_id))) - {"gateway-1"}) == ["left a spool"]


async def test_calls_go_on_while_sessions_are_pruned(store: Store) -> None:
    for number in range(25):
        await rollout(store, f"old-{number}", 31 * DAY)
    pruning = asyncio.create_task(store.upkeep.prune(MONTH_AGO, seconds=60))
    recorded = 0
    while not pruning.done():
        trace = call(f"live-{recorded}", [1, 2], [3])
        store.begin(trace, session(trace.session_id))
        await store.finish(trace, timeout=10)
        recorded += 1
    assert (await pruning).sessions == 25
    assert recorded > 5
    assert len(await ids(store)) == recorded


async def test_each_run_is_weighed_and_the_largest_stands_first(store: Store) -> None:
    for number in range(3):
        await rollout(store, f"a-{number}", DAY, run_id="large")
    await rollout(store, "b", DAY)
    sizes = await store.upkeep.sizes()
    one = sizes.runs[1]
    assert one == RunSize(None, sessions=1, traces=1, bytes=one.bytes)
    assert sizes.runs[0] == RunSize("large", sessions=3, traces=3, bytes=3 * one.bytes)
    assert sizes.database.bytes > 4 * one.bytes > 0


async def test_sizes_of_more_sessions_than_one_look_takes_are_added_up(store: Store) -> None:
    """Names that the two databases may put in another order, and we in a third."""
    for name in ("a", "B", "_c", "D", "é"):
        await rollout(store, name, DAY, run_id="r")
    weighed: list[RunSize] = []
    with store.database.read() as db:
        page = weigh(db, None, most=2)
        while page.last is not None:
            weighed += page.runs
            page = weigh(db, page.last, most=2)
    (run,) = added(weighed)
    assert (len(weighed), run.sessions, run.traces) == (3, 5, 5)


async def test_a_sqlite_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.db"
    async with opened(f"sqlite:///{path}") as store:
        for number in range(20):
            trace = call(f"s-{number}", started_at=NOON - 31 * DAY, body=number.to_bytes() + bytes(range(256)) * 800)
            trace = call(trace.session_id, list(range(number, 30_000)), started_at=trace.started_at)
            store.begin(trace, session(trace.session_id, created_at=trace.started_at))
            await store.finish(trace, timeout=10)
            await store.change_session(trace.session_id, status="finished", finished_at=trace.started_at)
        await asyncio.to_thread(store.database.checkpoint)
        before = path.stat().st_size
        pruned = await store.upkeep.prune(MONTH_AGO, seconds=60)
        after = path.stat().st_size
    assert pruned.sessions == 20
    assert before - after == pruned.given_back_bytes > 500_000


async def test_a_file_that_was_not_made_to_shrink_is_written_anew(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "rollouts.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE alembic_version (version_num TEXT)")
    db.execute("DROP TABLE alembic_version")
    db.close()
    database = open_database(path)
    assert isinstance(database, SqliteDatabase)
    with database.write_connection() as connection, connection.begin():
        connection.exec_driver_sql("CREATE TABLE t (b BLOB)")
        connection.exec_driver_sql("INSERT INTO t VALUES (randomblob(1000000))")
    with database.write_connection() as connection, connection.begin():
        connection.exec_driver_sql("DELETE FROM t")
        assert database.shrink(connection) == 0
    assert database.rewrite() > 900_000
    with database.read() as reading:
        assert reading.exec_driver_sql("PRAGMA auto_vacuum").scalar_one() == 2
        assert database.size(reading).free_bytes == 0
    database.close()
