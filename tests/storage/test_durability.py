"""The promise itself: what was acknowledged is there after the process was killed, however it was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from storage.records import TraceQuery
from storage.store import Store

_PROGRAM = """
import asyncio, sys
from dataclasses import replace
from pathlib import Path
from storage.store import Store
from tests.storage.examples import call, session

async def one(store, number):
    trace = call(f"session-{number % 10}", list(range(number % 10, 400 + number)), [1, 2, 3], body=b"{}" * number)
    store.begin(replace(trace, status="running"), session(trace.session_id))
    await asyncio.sleep(number % 7 / 100)
    await store.finish(trace, timeout=30)
    sys.stdout.write(trace.trace_id + "\\n")
    sys.stdout.flush()

async def main():
    store = Store.open(Path(sys.argv[1]), gateway_id="gateway-1")
    number = 0
    running = set()
    while True:
        while len(running) < 16:
            running.add(asyncio.create_task(one(store, number)))
            number += 1
        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

asyncio.run(main())
"""


_FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from storage.errors import CannotRecord
from storage.records import TraceQuery
from storage.store import Store
from tests.storage.examples import call

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main():
    store = Store.open(Path(sys.argv[1]), gateway_id="gateway-1")
    await store.finish(call("s"), timeout=5)
    limit(4096)
    await store.finish(call("s"), timeout=0.5)
    print(store.counts().spool_depth)
    while store.unable() is None:
        await asyncio.sleep(0.01)
    try:
        store.begin(call("s"))
    except CannotRecord as exc:
        print(exc)
    limit(resource.RLIM_INFINITY)
    while store.counts().spool_depth or store.unable():
        await asyncio.sleep(0.05)
    store.begin(call("s"))
    print(len((await store.traces(TraceQuery(session_id="s", status="ok"))).items), store.counts().unable)
    await store.close()

asyncio.run(main())
"""


def test_a_disk_without_room_refuses_new_calls_until_there_is_room_again(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FULL_DISK, str(tmp_path / "a.db")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    ended, refused, recovered = ran.stdout.splitlines()
    assert ended == "1"
    assert refused == "the spool can't be written: File too large"
    assert recovered == "2 None"


def killed_after(path: Path, acknowledged: int) -> list[str]:
    """Trace ids that a process told after each was committed, up to its death in the midst of its work."""
    child = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child, child.stdout:
        told = [child.stdout.readline() for _ in range(acknowledged)]
        os.kill(child.pid, signal.SIGKILL)
        told += [line for line in child.stdout if line.endswith("\n")]
        assert child.wait() == -signal.SIGKILL
    return [line.strip() for line in told]


@pytest.mark.parametrize("acknowledged", [1, 150])
async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "a.db"
    told = await asyncio.to_thread(killed_after, path, acknowledged)
    store = Store.open(path, gateway_id="gateway-2")
    page = await store.traces(TraceQuery(limit=10_000))
    assert page.next is None
    status = {trace.trace_id: trace.status for trace in page.items}
    assert {status[trace_id] for trace_id in told} == {"ok"}
    assert set(status.values()) <= {"ok", "interrupted"}
    turns = sorted((trace.session_id, trace.turn or 0) for trace in page.items)
    assert len(set(turns)) == len(turns)
    await store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
