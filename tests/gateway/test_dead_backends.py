"""Backends that are not there, in each way in which a machine can be gone (docs/promises.md D2), in every dialect."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal

import pytest

from adapters.scripts.replies import of_length
from gateway.scripted import Fault, ScriptedServer, free_port, running
from tests.gateway.dialect_calls import ASKED, error_of
from tests.gateway.harness import gateway, traces_in, until

Death = Literal["refuses", "resets", "swallows"]
DEATHS: tuple[Death, ...] = ("refuses", "resets", "swallows")
PATHS = [path for path in ASKED if not path.endswith("count_tokens")]
CONNECT_TIMEOUT = 2.0
# What a busy machine takes beside the waiting: less than a second limit.
SLACK = 1.9


@asynccontextmanager
async def dead(death: Death) -> AsyncIterator[str]:
    """The URL of a backend that is dead in this way."""
    if death == "refuses":
        yield f"http://127.0.0.1:{free_port()}"
    elif death == "resets":
        async with resetting() as url:
            yield url
    else:
        with swallowing() as url:
            yield url


@asynccontextmanager
async def resetting() -> AsyncIterator[str]:
    """It takes each connection and resets it."""

    def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@contextmanager
def swallowing() -> Iterator[str]:
    """Its queue of connections is full and nobody takes one: who asks for another hears nothing at all."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


async def test_one_that_swallows_connections_says_nothing() -> None:
    with swallowing() as url:
        host, port = url.removeprefix("http://").split(":")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await asyncio.open_connection(host, int(port))


@pytest.mark.parametrize("detected", [False, True], ids=["known", "to be asked"])
@pytest.mark.parametrize("death", DEATHS)
async def test_with_one_of_two_dead_no_request_fails(tmp_path: Path, death: Death, detected: bool) -> None:
    told = "" if detected else ",engine=vllm,version=0.32.0"
    async with (
        dead(death) as gone,
        running(ScriptedServer("vllm")) as there,
        gateway(tmp_path, f"{gone},name=dead{told}", f"{there},name=well", connect_timeout=CONNECT_TIMEOUT) as served,
    ):
        answers = await asyncio.gather(
            *(
                served.agent.post(f"/sessions/{death}-{number}{path}", json={**ASKED[path], "stream": stream})
                for number in range(3)
                for path in PATHS
                for stream in (False, True)
            )
        )
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    for trace in await traces_in(tmp_path / "rollouts.db"):
        assert (trace.status, trace.fidelity, trace.backend) == ("ok", "exact", "well")
        # Whoever was tried stands there, with what came of it.
        *failed, last = trace.attempts
        assert (last.backend, last.status) == ("well", 200)
        assert all((attempt.backend, attempt.status) == ("dead", None) and attempt.error for attempt in failed)


@pytest.mark.parametrize("detected", [False, True], ids=["known", "to be asked"])
@pytest.mark.parametrize("death", DEATHS)
async def test_with_all_dead_there_is_an_error_of_the_dialect_within_the_limit(
    tmp_path: Path, death: Death, detected: bool
) -> None:
    told = "" if detected else ",engine=vllm,version=0.32.0"
    async with dead(death) as one, dead(death) as two:
        backends = (f"{one},name=one{told}", f"{two},name=two{told}")
        limits = {"connect_timeout": CONNECT_TIMEOUT, "detect_timeout": CONNECT_TIMEOUT}
        async with gateway(tmp_path, *backends, **limits) as served:

            async def called(path: str, stream: bool) -> None:
                started = time.monotonic()
                answer = await served.agent.post(path, json={**ASKED[path], "stream": stream})
                assert time.monotonic() - started < CONNECT_TIMEOUT + SLACK
                # One that took the connection may have seen the call: that is a bad answer, and no absence.
                assert answer.status_code == 503 or (death == "resets" and answer.status_code == 502)
                _, message = error_of(path, answer.json())
                assert "backend" in message

            await asyncio.gather(*(called(path, stream) for path in PATHS for stream in (False, True)))
    for trace in await traces_in(tmp_path / "rollouts.db"):
        assert (trace.status, trace.choices) == ("backend_error", ())
        assert sorted(attempt.backend for attempt in trace.attempts) == ["one", "two"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("limit", ["first_byte_timeout", "idle_timeout", "total_timeout"])
async def test_a_backend_that_hangs_is_let_go_at_its_limit(tmp_path: Path, path: str, limit: str) -> None:
    """docs/promises.md D3. No status before any byte was there; behind the first one an error of the stream."""
    server = ScriptedServer("vllm", reply=of_length(8))
    async with running(server) as backend, gateway(tmp_path, f"{backend},name=b", **{limit: 0.4}) as served:
        assert (await served.agent.post(path, json=ASKED[path])).status_code == 200
        late = Fault(after_frames=4, ending="hung") if limit == "idle_timeout" else Fault(delay=30.0)
        for stream in (True,) if limit == "idle_timeout" else (False, True):
            server.faults.append(late)
            answer = await served.agent.post(path, json={**ASKED[path], "stream": stream})
            if limit == "idle_timeout":
                told = [part.partition(b"data: ")[2] for part in answer.content.split(b"\n\n")]
                assert b"0.4 s" in b"".join(told[-2:])
                assert b"[DONE]" not in answer.content
            else:
                assert answer.status_code == 504
                assert "0.4 s" in error_of(path, answer.json())[1]
        await until(lambda: not any(call.open for call in server.calls))  # Its connection is closed, too.
        (told_of,) = (await served.agent.get("/api/admin/status")).json()["backends"]
        assert told_of["in_flight"] == 0
    _, *traces = await traces_in(tmp_path / "rollouts.db")
    assert {trace.status for trace in traces} == {"backend_error"}
    assert all(trace.attempts for trace in traces)
