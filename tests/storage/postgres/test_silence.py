"""A PostgreSQL that hangs, goes away and comes back: nothing waits for it without end, and nothing has to be told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage.errors import Unavailable
from storage.records import TraceQuery
from storage.store import Store
from tests.postgres import Postgres
from tests.storage.examples import call, session


@pytest.fixture
async def store(own_postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    monkeypatch.chdir(tmp_path)
    store = Store.open(own_postgres.database(), gateway_id="gateway-1")
    yield store
    await store.close()


async def seconds_until_refused(asked: object) -> float:
    began = time.monotonic()
    with pytest.raises(Unavailable):
        await asked  # type: ignore[misc]
    return time.monotonic() - began


async def test_who_looks_for_a_session_while_the_server_hangs_is_told_soon(
    store: Store, own_postgres: Postgres
) -> None:
    await store.create_session(session("s"))
    assert await store.find_session("s") == session("s")
    own_postgres.pause()
    waits = [asyncio.create_task(seconds_until_refused(store.find_session(f"s{number}"))) for number in range(60)]
    longest = max(await asyncio.gather(*waits))
    assert 1.0 < longest < 8.0
    # As long as it was silent a moment ago, nobody waits at all.
    assert await seconds_until_refused(store.find_session("s")) < 1.0
    own_postgres.resume()
    ends = time.monotonic() + 20
    while True:
        try:
            assert await store.find_session("s") == session("s")
            return
        except Unavailable:
            assert time.monotonic() < ends
            await asyncio.sleep(0.1)


async def test_reading_goes_on_over_a_restart_as_if_nothing_had_been(store: Store, own_postgres: Postgres) -> None:
    await store.create_session(session("s"))
    await asyncio.gather(*(store.find_session("s") for _ in range(4)), *(store.session("s") for _ in range(4)))
    own_postgres.stop()
    own_postgres.start()
    found = await asyncio.gather(*(store.find_session("s") for _ in range(8)), store.session("s"))
    assert found == [session("s")] * 9


async def test_what_is_written_while_the_server_is_killed_and_started_is_there_once(
    store: Store, own_postgres: Postgres
) -> None:
    stop = asyncio.Event()
    written: list[str] = []

    async def agent(number: int) -> None:
        while not stop.is_set():
            trace = call(f"s{number}", [number], [1])
            await store.finish(trace, timeout=60)
            written.append(trace.trace_id)
            await asyncio.sleep(0.01)

    agents = [asyncio.create_task(agent(number)) for number in range(8)]
    for _ in range(3):
        await asyncio.sleep(0.3)
        await asyncio.to_thread(own_postgres.kill)
        await asyncio.sleep(0.3)
        await asyncio.to_thread(own_postgres.start)
    await asyncio.sleep(0.5)
    stop.set()
    await asyncio.gather(*agents)
    ends = time.monotonic() + 30
    while True:
        found = [trace.trace_id for trace in (await store.traces(TraceQuery(limit=100_000))).items]
        if len(found) >= len(written) or time.monotonic() > ends:
            break
        await asyncio.sleep(0.1)
    assert sorted(found) == sorted(written)
