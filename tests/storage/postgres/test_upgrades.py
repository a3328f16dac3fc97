"""The schema is upgraded by a newer program while a gateway of this one writes: nothing is lost or written wrongly."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import text

from storage.records import TraceQuery
from storage.store import Store
from tests.postgres import Postgres
from tests.storage.behind import behind
from tests.storage.examples import call


async def test_an_upgrade_under_load_loses_nothing(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.database()
    store = Store.open(url, gateway_id="gateway-1", spool=tmp_path / "spool")
    stop = asyncio.Event()
    written: list[str] = []

    async def agent(number: int) -> None:
        while not stop.is_set():
            trace = call(f"s{number}", [number], [1])
            await store.finish(trace, timeout=1)
            written.append(trace.trace_id)
            await asyncio.sleep(0.02)

    agents = [asyncio.create_task(agent(number)) for number in range(6)]
    await asyncio.sleep(0.2)
    # What this program can go on with: it waits while the table is locked, and has the plans of its statements anew.
    await asyncio.to_thread(changed, url, "ALTER TABLE traces ADD COLUMN newer VARCHAR", 0.5)
    await until(lambda: store.counts().spool_depth == 0)
    # What it can not go on with.
    await asyncio.to_thread(changed, url, 'ALTER TABLE traces RENAME COLUMN "source" TO origin')
    await until(lambda: store.counts().spool_depth > 10)
    assert "source" in str(store.counts().unable)
    await asyncio.to_thread(changed, url, 'ALTER TABLE traces RENAME COLUMN origin TO "source"')
    await until(lambda: store.counts().spool_depth == 0)
    stop.set()
    await asyncio.gather(*agents)
    await until(lambda: store.counts().spool_depth == 0)
    found = [trace.trace_id for trace in (await store.traces(TraceQuery(limit=100_000))).items]
    assert sorted(found) == sorted(written)
    await store.close()


def changed(url: str, statement: str, lasting_s: float = 0.0) -> None:
    with behind(url) as db:
        db.execute(text(statement))
        time.sleep(lasting_s)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.01)
