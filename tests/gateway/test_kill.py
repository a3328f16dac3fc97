"""An answer that the client has is in the database, whatever happens to the gateway the moment after.

`KILLS=200 make test ARGS=tests/gateway/test_kill.py` is the long form.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from adapters.schema import Trace
from gateway.commands.serve import serve
from gateway.scripted import ScriptedServer, running
from gateway.settings import load
from tests.gateway.harness import CHAT, HELLO, traces_in

KILLS = int(os.environ.get("KILLS", "12"))

# Children are forked from one process that has imported everything: a gateway is up within a tenth of a second.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["gateway.app", "gateway.commands.serve", "uvicorn"])


def _serve(database: str, backend: str, ready: Path) -> None:
    settings = load(environ={}, flags={"database": database, "backends": [backend], "port": 0, "log_level": "error"})
    serve(settings, ready_file=ready, announce=lambda *_: None)


@contextmanager
def _gateway(tmp_path: Path, backend: str) -> Iterator[Any]:
    """A gateway's process, killed at the end if nobody did so before."""
    ready = tmp_path / "ready.json"
    ready.unlink(missing_ok=True)
    process = _PROCESSES.Process(target=_serve, args=(f"sqlite:///{tmp_path / 'rollouts.db'}", backend, ready))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


async def _port(tmp_path: Path) -> int:
    ready = tmp_path / "ready.json"
    async with asyncio.timeout(30):
        while not ready.exists():
            await asyncio.sleep(0.005)
    return int(json.loads(ready.read_text())["url"].rpartition(":")[2])


async def _call_and_kill(port: int, pid: int, session: str, *, stream: bool) -> str:
    """One call, the gateway killed with its last byte; the trace id that the answer named."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({**HELLO, "stream": stream}).encode()
    head = f"POST /sessions/{session}{CHAT} HTTP/1.1\r\nhost: gateway\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    headers = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    fields = dict(line.split(": ", 1) for line in headers.split("\r\n")[1:] if line)
    if stream:
        await reader.readuntil(b"data: [DONE]\n\n")
    else:
        await reader.readexactly(int(fields["content-length"]))
    os.kill(pid, signal.SIGKILL)
    writer.close()
    return fields["x-trace-id"]


@pytest.mark.timeout(60 + 5 * KILLS)
async def test_kill_right_after_the_end_of_each_answer_loses_no_trace(tmp_path: Path) -> None:
    """docs/promises.md B2, F3."""
    server = ScriptedServer("vllm", version="0.32.0")
    answered: list[str] = []
    async with running(server) as backend:
        for number in range(KILLS):
            with _gateway(tmp_path, f"{backend},engine=vllm,version=0.32.0") as process:
                port = await _port(tmp_path)
                session = f"session-{number % 7}"
                answered.append(await _call_and_kill(port, process.pid, session, stream=bool(number % 2)))
    traces = {trace.trace_id: trace for trace in await traces_in(tmp_path / "rollouts.db", limit=1000)}
    assert list(traces) == answered
    for trace_id, call in zip(answered, server.calls, strict=True):
        _is_right(traces[trace_id], call.speeches[0])
    by_session = [[t.turn for t in traces.values() if t.session_id == f"session-{number}"] for number in range(7)]
    assert all(turns == list(range(len(turns))) for turns in by_session)


def _is_right(trace: Trace, speech: Any) -> None:
    assert (trace.status, trace.fidelity, trace.logprobs_fidelity) == ("ok", "exact", "exact")
    assert tuple(trace.choices[0].token_ids or ()) == speech.ids
    assert trace.choices[0].logprobs == speech.logprobs


async def _a_trace_in(database: Path) -> None:
    """Returns once another process sees one."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        async with asyncio.timeout(30):
            while not db.execute("select 1 from traces").fetchone():
                await asyncio.sleep(0.01)


async def test_a_call_in_flight_at_a_kill_is_interrupted(tmp_path: Path) -> None:
    from gateway.scripted import Fault

    server = ScriptedServer("vllm", fault=Fault(after_frames=3, ending="hung"))
    async with running(server) as backend:
        with _gateway(tmp_path, backend) as process:
            reader, writer = await asyncio.open_connection("127.0.0.1", await _port(tmp_path))
            body = json.dumps({**HELLO, "stream": True}).encode()
            writer.write(
                b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(body)) + body
            )
            await reader.readuntil(b"data: ")
            await _a_trace_in(tmp_path / "rollouts.db")
            os.kill(process.pid, signal.SIGKILL)
            writer.close()
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.fidelity) == ("interrupted", "none")
    assert trace.duration_ms is None
