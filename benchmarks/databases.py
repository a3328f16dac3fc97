"""What a trace costs on each database: rows a second and this process's CPU, beside each other in one run.

    python -m benchmarks.databases [traces]

PostgreSQL runs beside this process on the same cores, so the rates say what one machine does with both. `2 gateways`
share this process, and their calls alternate: each session's next call lands on the other, the dearest way there is.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path

from adapters.schema import Session, Trace
from benchmarks.storage import Corpus, Cost, growing_session, single_calls
from storage.store import Store
from tests.postgres import Postgres

SESSIONS = 16


async def store_all(stores: Sequence[Store], traces: Sequence[Trace], at_once: int) -> None:
    for start in range(0, len(traces), at_once):
        part = traces[start : start + at_once]
        store = stores[start // at_once % len(stores)]
        for one in part:
            store.begin(one, Session(one.session_id, one.started_at))
        await asyncio.gather(*(store.finish(one, timeout=60) for one in part))


async def measure(name: str, place: str, traces: Sequence[Trace], at_once: int, gateways: int = 1) -> None:
    stores = [Store.open(place, gateway_id=f"bench-{number}") for number in range(gateways)]
    await store_all(stores, single_calls(Corpus.read(), 64), 16)
    with (cost := Cost()):
        await store_all(stores, traces, at_once)
    for store in stores:
        await store.close()
    each = len(traces)
    print(f"  {name:<28} {each / cost.wall:7.0f} traces/s   CPU {cost.cpu / each * 1e3:6.3f} ms a trace")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    corpus = Corpus.read()
    singles = single_calls(corpus, count)
    sessions = [list(growing_session(corpus, f"session-{number}")) for number in range(SESSIONS)]
    turns = [one for one in chain.from_iterable(zip_longest(*sessions)) if one is not None]
    kinds = (
        ("1,200 ids, 64 at once", singles, 64),
        ("1,200 ids, 16 at once", singles, 16),
        ("1,200 ids, one at a time", singles[: count // 4], 1),
        (f"{SESSIONS} sessions growing to 32,000", turns, SESSIONS),
    )
    server = Postgres.make(fsync="on", full_page_writes="on", shared_buffers="256MB")
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, traces, at_once in kinds:
                print(f"{name}, {len(traces)} traces")
                asyncio.run(measure("SQLite", f"sqlite:///{Path(folder) / f'{at_once}.db'}", traces, at_once))
                asyncio.run(measure("PostgreSQL", server.database(), traces, at_once))
                asyncio.run(measure("PostgreSQL, 2 gateways", server.database(), traces, at_once, gateways=2))
    finally:
        server.remove()


if __name__ == "__main__":
    main()
