"""What each level of durability costs, on SQLite, on PostgreSQL and in the spool: in turn, as ratios to `process`.

    python -m benchmarks.durability [rounds]

Rates are those of one machine that does all of it, and its disk's fsync above all: only the ratios of one run say much.
`the spool` is what agents wait for while the database is away.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.storage import Corpus, single_calls
from storage.durability import DURABILITIES, Durability
from storage.store import Store
from tests.postgres import Postgres

_AT_ONCE: Final = (1, 64)
_CALLS: Final = {1: 60, 64: 640}


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one place at one level: milliseconds that a call's end waits for its trace, and traces a second."""

    wait_ms: float
    rate: float


Found: TypeAlias = dict[tuple[str, int, Durability], list[Measured]]


async def measure(
    place: str | Path, folder: Path, level: Durability, at_once: int, away: Callable[[], AbstractContextManager[None]]
) -> Measured:
    store = Store.open(place, gateway_id=f"bench-{time.monotonic_ns()}", spool=folder / "spool", durability=level)
    calls = single_calls(CORPUS, _CALLS[at_once])
    waits: list[float] = []

    async def one_after_another() -> None:
        while calls:
            trace = calls.pop()
            store.begin(trace)
            began = time.perf_counter()
            await store.finish(trace, timeout=0.2)
            waits.append(time.perf_counter() - began)

    with away():
        first = single_calls(CORPUS, 1)[0]
        await store.finish(first, timeout=0.2)  # From here on it is known that the database is away, where it is.
        began = time.perf_counter()
        await asyncio.gather(*(one_after_another() for _ in range(at_once)))
        took = time.perf_counter() - began
    await store.close()
    return Measured(statistics.median(waits) * 1e3, len(waits) / took)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


def one_round(server: Postgres | None, level: Durability, at_once: int) -> Iterator[tuple[str, Measured]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "a.db"
        yield "SQLite", asyncio.run(measure(path, folder, level, at_once, nullcontext))
        yield "the spool", asyncio.run(measure(path, folder, level, at_once, lambda: locked(path)))
        if server is not None:
            yield "PostgreSQL", asyncio.run(measure(server.database(), folder, level, at_once, nullcontext))


def main(rounds: int) -> None:
    found: Found = defaultdict(list)
    server = Postgres.make(fsync="on", full_page_writes="on", shared_buffers="256MB")
    try:
        for number in range(rounds):
            for level in DURABILITIES[number % 3 :] + DURABILITIES[: number % 3]:
                for at_once in _AT_ONCE:
                    for place, measured in one_round(server, level, at_once):
                        found[place, at_once, level].append(measured)
    finally:
        server.remove()
    for place, at_once, level in found:
        _print(place, at_once, level, found)


def _print(place: str, at_once: int, level: Durability, found: Found) -> None:
    waits = [statistics.median(each.wait_ms for each in found[place, at_once, of]) for of in (level, "process")]
    rates = [statistics.median(each.rate for each in found[place, at_once, of]) for of in (level, "process")]
    print(
        f"{place:<11} {at_once:3} at once  {level:<8} {waits[0]:7.2f} ms ({waits[0] / waits[1]:5.2f})"
        f"  {rates[0]:7.0f} traces/s ({rates[0] / rates[1]:5.2f})"
    )


CORPUS: Final = Corpus.read()

if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
