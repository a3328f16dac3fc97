"""A database that is locked, hangs or is stopped (docs/promises.md D7, F4): no call waits, and all is there after."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage.durability import DEFAULT_DURABILITY
from storage.errors import StorageError, Unavailable
from storage.records import TraceQuery
from storage.sqlite import SqliteDatabase
from storage.store import Store
from tests.postgres import Postgres
from tests.storage.behind import behind
from tests.storage.conftest import on_postgres, on_sqlite
from tests.storage.examples import NOON, call, session


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else is writing to the file; what he wrote is there at the end."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield other
    finally:
        other.execute("COMMIT")
        other.close()


async def drained(store: Store) -> None:
    async with asyncio.timeout(30):
        while not await store.complete():
            await asyncio.sleep(0.02)


async def turns_of(store: Store, session_id: str) -> list[tuple[str, int | None]]:
    return [(trace.trace_id, trace.turn) for trace in await store.whole_session(session_id)]


class Hanging(SqliteDatabase):
    """A database whose write transactions do not come back until they may."""

    goes_on: threading.Event | None = None

    @property
    def exclusive(self) -> bool:  # type: ignore[override]
        if self.goes_on is not None and threading.current_thread().name == "storage-writer":
            assert self.goes_on.wait(30)
        return True


async def test_a_write_that_hangs_holds_up_no_call_and_is_there_once_when_it_comes_back(tmp_path: Path) -> None:
    database = Hanging.at(tmp_path / "a.db", DEFAULT_DURABILITY)
    store = Store.start(database, gateway_id="gateway-1")
    database.goes_on = threading.Event()
    calls = [call("s", [number], [2]) for number in range(50)]
    await store.finish(calls[0], timeout=0.3)
    began = time.monotonic()
    for one in calls[1:]:
        store.begin(one)
        await store.finish(one, timeout=3600)
    assert time.monotonic() - began < 20
    async with asyncio.timeout(10):
        while (unable := store.counts().unable) is None:
            await asyncio.sleep(0.05)
    assert "has not answered" in unable
    assert (store.unable(), store.counts().spool_depth, await store.complete()) == (None, 50, False)
    database.goes_on.set()
    await drained(store)
    assert await turns_of(store, "s") == [(one.trace_id, turn) for turn, one in enumerate(calls)]
    counts = store.counts()
    assert (counts.finished, counts.committed, counts.spool_depth, counts.spool_oldest_s) == (50, 50, 0, None)
    await store.close()


@on_sqlite
async def test_a_command_on_a_database_that_is_known_to_be_away_fails_at_once_and_is_not_done_later(
    store: Store, tmp_path: Path
) -> None:
    with locked(tmp_path / "rollouts.db"):
        tries = [store.create_session(session(f"s{number}")) for number in range(20)]
        began = time.monotonic()
        ends = await asyncio.gather(*tries, return_exceptions=True)
        assert time.monotonic() - began < 4
        assert all(isinstance(end, StorageError) for end in ends)
    await drained(store)
    await store.create_session(session("s0"))


async def test_a_session_that_is_deleted_while_its_traces_are_spooled_stays_deleted(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "a.db", gateway_id="gateway-1")
    await store.finish(call("gone", [1], [2]), timeout=20)
    kept = call("kept", [1], [2])
    with locked(tmp_path / "a.db") as other:
        await store.finish(call("gone", [1], [2]), timeout=0.1)
        await store.finish(kept, timeout=0.1)
        await store.close()
        for table in ("sessions", "traces"):
            other.execute(f"DELETE FROM {table} WHERE session_id = 'gone'")  # noqa: S608
        other.execute("INSERT INTO tombstones VALUES ('gone', ?)", (NOON.isoformat(),))
    store = Store.open(tmp_path / "a.db", gateway_id="gateway-2")
    await drained(store)
    assert [trace.trace_id for trace in (await store.traces(TraceQuery())).items] == [kept.trace_id]
    assert await store.session("gone") is None
    assert (store.counts().dropped_late, store.counts().committed) == (1, 1)
    await store.close()
    assert not (tmp_path / "a.db-spool").exists()


async def test_what_comes_while_the_spool_is_drained_has_the_higher_turns(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "a.db", gateway_id="gateway-1")
    finished: dict[str, list[str]] = {f"s{number}": [] for number in range(8)}
    after = 0

    async def rollout(session_id: str, calls: int) -> None:
        nonlocal after
        for _ in range(calls):
            one = call(session_id, [len(finished[session_id])], [2])
            store.begin(one, session(session_id, run_id="r"))
            await store.finish(one, timeout=0.3)
            finished[session_id].append(one.trace_id)
            after += store.counts().unable is None and store.counts().spool_depth > 0

    with locked(tmp_path / "a.db"):
        await asyncio.gather(*(rollout(each, 40) for each in finished))
    await asyncio.gather(*(rollout(each, 60) for each in finished))
    await drained(store)
    assert after > 10, "nothing came beside the drain"
    for session_id, trace_ids in finished.items():
        assert await turns_of(store, session_id) == [(each, turn) for turn, each in enumerate(trace_ids)]
        assert (await store.session(session_id)) == session(session_id, run_id="r")
    await store.close()


async def test_what_is_asked_about_while_only_the_spool_knows_it_is_not_said_to_be_missing(tmp_path: Path) -> None:
    database = Hanging.at(tmp_path / "a.db", DEFAULT_DURABILITY)
    store = Store.start(database, gateway_id="gateway-1")
    with locked(tmp_path / "a.db"):
        store.begin(call("s"), session("s", run_id="r"))
        await store.finish(call("s"), timeout=0.1)
        assert await store.session("s") == session("s", run_id="r")
        with pytest.raises(Unavailable):
            await store.finish_session("s")
    await drained(store)
    await store.finish_session("s")
    await store.close()


async def test_a_postgresql_that_is_stopped_for_a_while_holds_up_no_call(
    own_postgres: Postgres, tmp_path: Path
) -> None:
    place = own_postgres.database()
    store = Store.open(place, gateway_id="gateway-1", spool=tmp_path / "spool")
    calls = [call(f"s{number % 3}", [number], [2]) for number in range(60)]
    await store.finish(calls[0], timeout=20)
    own_postgres.pause()
    began = time.monotonic()
    for one in calls[1:30]:
        store.begin(one)
        await store.finish(one, timeout=0.5)
    own_postgres.resume()
    own_postgres.kill()
    for one in calls[30:]:
        store.begin(one)
        await store.finish(one, timeout=0.5)
    assert time.monotonic() - began < 20
    assert not await store.complete()
    own_postgres.start()
    await drained(store)
    for number in range(3):
        mine = [one.trace_id for one in calls if one.session_id == f"s{number}"]
        assert await turns_of(store, f"s{number}") == [(each, turn) for turn, each in enumerate(mine)]
    assert store.counts().committed == 60
    await store.close()


@on_postgres
async def test_a_database_that_takes_heartbeats_and_no_traces_is_not_said_to_be_back(
    store: Store, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    with behind(place) as db:
        db.exec_driver_sql(
            "CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN RAISE 'no traces'; END $$ LANGUAGE plpgsql"
        )
        db.exec_driver_sql("CREATE TRIGGER refused BEFORE INSERT ON traces EXECUTE FUNCTION refuse()")
    try:
        await store.finish(call("s"), timeout=0.5)
        told = []
        for _ in range(60):
            await asyncio.sleep(0.05)
            told.append(store.counts().unable)
    finally:
        with behind(place) as db:
            db.exec_driver_sql("DROP TRIGGER refused ON traces")
            db.exec_driver_sql("DROP FUNCTION refuse")
    assert all(why is not None and "no traces" in why for why in told)
    await drained(store)
    assert store.counts().unable is None
    said = [record.message for record in caplog.records if record.name == "storage.transactions"]
    assert [message.partition(":")[0] for message in said] == [
        "the database can't be written",
        "the database can be written again",
    ]


async def test_a_list_is_not_complete_while_another_gateways_spool_may_have_something(place: str, store: Store) -> None:
    assert await store.complete()
    insert = "INSERT INTO gateways (gateway_id, heartbeat_at, spool_depth) VALUES ('other', {}, {})"
    for heard, depth, complete in [
        ("CURRENT_TIMESTAMP", 1, False),
        ("CURRENT_TIMESTAMP", 0, True),
        ("'2026-01-01 00:00:00.000000+00'", 1, False),
        ("'2026-01-01 00:00:00.000000+00'", 0, True),
    ]:
        with behind(place) as db:
            db.exec_driver_sql("DELETE FROM gateways WHERE gateway_id = 'other'")
            db.exec_driver_sql(insert.format(heard, depth))
        assert await store.complete() is complete, (heard, depth)
