"""Calls that went wrong are told apart by their traces: who ended them, how far they had come, what was said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest

from adapters.scripts.replies import of_length
from gateway.scripted import Fault, ScriptedServer, free_port, running
from tests.gateway.harness import Running, gateway, traces_in, until


@dataclass(frozen=True, slots=True)
class Ended:
    """What a trace has of its end, with the status that each try of it had."""

    status: str
    http_status: int | None
    said: str | None
    tried: tuple[int | None, ...]
    choices: int


def _error(status: int, words: str) -> bytes:
    return b'{"error":{"message":"%s","type":"x","param":null,"code":%d}}' % (words.encode(), status)


FULL: Final = Fault(status=500, body=_error(500, "out of memory"), content_type="application/json")
LONG: Final = Fault(status=400, body=_error(400, "max_tokens is too large"), content_type="application/json")
IN_STREAM: Final = Fault(insert={5: b"data: " + _error(500, "a worker died") + b"\n\n"}, after_frames=5, ending="clean")
BROKEN: Final = "the backend's answer broke off: closed inside the answer"

ENDS: Final[Mapping[str, tuple[Fault, bool, Ended]]] = {
    "an answer": (Fault(), False, Ended("ok", 200, None, (200,), 1)),
    "a 4xx": (LONG, False, Ended("backend_error", 400, "max_tokens is too large", (400,), 0)),
    "a 4xx in place of a stream": (LONG, True, Ended("backend_error", 400, "max_tokens is too large", (400,), 0)),
    "a 5xx": (FULL, False, Ended("backend_error", 500, "out of memory", (500,), 0)),
    "a 5xx in place of a stream": (FULL, True, Ended("backend_error", 500, "out of memory", (500,), 0)),
    "an error in a stream": (IN_STREAM, True, Ended("backend_error", 500, "a worker died", (200,), 1)),
    "a backend that went in a stream": (
        Fault(after_frames=5, pause=0.01),
        True,
        Ended("backend_error", 502, BROKEN, (200,), 1),
    ),
    "an agent that went in a stream": (
        Fault(after_frames=5, ending="hung"),
        True,
        Ended("client_disconnected", None, None, (200,), 1),
    ),
    "an agent that went before the first byte": (
        Fault(delay=20),
        False,
        Ended("client_disconnected", None, None, (None,), 0),
    ),
}


@pytest.mark.parametrize("name", ENDS)
async def test_each_way_in_which_a_call_ends_has_a_record_of_its_own(tmp_path: Path, name: str) -> None:
    """docs/promises.md F5."""
    fault, stream, expected = ENDS[name]
    server = ScriptedServer("vllm", reply=of_length(12), fault=fault)
    async with running(server) as backend, gateway(tmp_path, f"{backend},engine=vllm") as served:
        await _call(served, stream=stream)
    assert await _ended(tmp_path) == expected


@pytest.mark.parametrize("stream", [False, True])
async def test_a_backend_that_was_never_reached_is_recorded_with_each_try(tmp_path: Path, stream: bool) -> None:
    """docs/promises.md F5."""
    async with gateway(tmp_path, f"http://127.0.0.1:{free_port()},engine=vllm") as served:
        await _call(served, stream=stream)
    ended = await _ended(tmp_path)
    assert (ended.status, ended.http_status, ended.choices) == ("backend_error", 503, 0)
    assert set(ended.tried) == {None}


def test_no_two_of_them_look_alike() -> None:
    alike = [name for name in ENDS if "in place of a stream" not in name]
    assert len({ENDS[name][2] for name in alike}) == len(alike)


async def _call(served: Running, *, stream: bool) -> None:
    """By an agent that goes when nothing has come for a while."""
    try:
        async with served.agent.stream("POST", "/v1/chat/completions", json=_asked(stream), timeout=0.7) as response:
            async for _ in response.aiter_raw():
                pass
    except httpx.ReadTimeout:
        await until(lambda: served.statuses()[-1][0] != "running")


def _asked(stream: bool) -> dict[str, object]:
    return {"model": "scripted", "messages": [{"role": "user", "content": "Say hello."}], "stream": stream}


async def _ended(folder: Path) -> Ended:
    (trace,) = await traces_in(folder / "rollouts.db")
    said = None if trace.error is None else trace.error.message
    tried = tuple(attempt.status for attempt in trace.attempts)
    return Ended(trace.status, trace.http_status, said, tried, len(trace.choices))
