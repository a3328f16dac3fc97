"""Kills at random moments of a gateway whose database is locked again and again: while it spools, and while it drains.

`KILLS=200 make test ARGS=tests/storage/spool/test_kills.py` is the long form.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage.records import TraceQuery
from storage.store import Store

KILLS = int(os.environ.get("KILLS", "6"))

_PROGRAM = """
import asyncio, sys
from dataclasses import replace
from pathlib import Path
from storage.store import Store
from tests.storage.examples import call, session

async def rollout(store, session_id):
    for number in range(100_000):
        trace = call(session_id, list(range(number)), [number], body=b"{}" * number)
        store.begin(replace(trace, status="running"), session(session_id, run_id="r"))
        await asyncio.sleep(0.002)
        await store.finish(trace, timeout=0.05)
        sys.stdout.write(f"{session_id} {trace.trace_id}\\n")
        sys.stdout.flush()

async def main():
    store = Store.open(Path(sys.argv[1]), gateway_id=sys.argv[2])
    print("open", flush=True)
    await asyncio.gather(*(rollout(store, f"{sys.argv[2]}-{number}") for number in range(8)))

asyncio.run(main())
"""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    try:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")
    finally:
        db.close()


def killed(path: Path, number: int, rng: random.Random) -> list[tuple[str, str]]:
    """What a gateway acknowledged until it was killed: with its database locked, just after, or in between."""
    command = [sys.executable, "-c", _PROGRAM, str(path), f"gateway-{number}"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child, child.stdout:
        assert child.stdout.readline() == "open\n"
        told = [child.stdout.readline() for _ in range(rng.randrange(1, 40))]
        with locked(path):
            told += [child.stdout.readline() for _ in range(rng.randrange(1, 300))]
            if number % 3 == 0:
                os.kill(child.pid, signal.SIGKILL)
        if number % 3 == 1:
            # The drain begins within a second, and takes some tenths of one.
            told += [child.stdout.readline() for _ in range(rng.randrange(1, 300))]
        os.kill(child.pid, signal.SIGKILL)
        told += [line for line in child.stdout if line.endswith("\n")]
        assert child.wait() == -signal.SIGKILL
    return [(session_id, trace_id) for session_id, trace_id in (line.split() for line in told)]


@pytest.mark.timeout(120 + 10 * KILLS)
async def test_what_was_acknowledged_is_there_once_and_in_order_whenever_its_gateway_was_killed(tmp_path: Path) -> None:
    """docs/promises.md B3, D7."""
    path, rng = tmp_path / "a.db", random.Random(7)
    told: list[tuple[str, str]] = []
    for number in range(KILLS):
        told += await asyncio.to_thread(killed, path, number, rng)
    left = list((tmp_path / "a.db-spool").iterdir())
    store = Store.open(path, gateway_id="the last")
    async with asyncio.timeout(60):
        while not await store.complete():
            await asyncio.sleep(0.02)
    for session_id in {session_id for session_id, _ in told}:
        acknowledged = [trace_id for each, trace_id in told if each == session_id]
        traces = await store.whole_session(session_id)
        ended = [trace.trace_id for trace in traces if trace.status == "ok"]
        assert ended[: len(acknowledged)] == acknowledged
        assert Counter(trace.status for trace in traces) - Counter(ok=len(ended), interrupted=1) == Counter()
        assert [trace.turn for trace in traces] == list(range(len(traces)))
        assert (await store.session(session_id)).run_id == "r"  # type: ignore[union-attr]
    assert left, "nothing was left in a spool, so this showed little"
    assert (await store.traces(TraceQuery(status="running", limit=1))).items == ()
    assert store.counts().spool_refused == 0
    await store.close()
    assert not (tmp_path / "a.db-spool").exists()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
