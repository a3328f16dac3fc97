"""A busy backend is asked again when it says so, within the patience that the owner has (docs/promises.md F15)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.retry_after import seconds_to_wait
from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.harness import gateway

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, {"retry-after": "2"}, 2.0),
        (503, {"retry-after": "1.5"}, 1.5),
        (429, {"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        (429, {"retry-after": "Fri, 20 Nov 2026 08:00:30 GMT"}, 30.0),
        (429, {"retry-after": "Fri, 20 Nov 2026 08:00:30"}, 30.0),
        # In the past, and at once: not in a circle.
        (429, {"retry-after": "Fri, 20 Nov 2026 07:00:00 GMT"}, 0.1),
        (429, {"retry-after": "0"}, 0.1),
        (429, {"retry-after": "-5"}, 0.1),
        (429, {}, None),
        (429, {"retry-after": "soon"}, None),
        (429, {"retry-after": "inf"}, None),
        (429, {"retry-after": "nan"}, None),
        (429, {"retry-after": "2", "x-should-retry": "false"}, None),
        (500, {"retry-after": "2"}, None),
        (400, {"retry-after": "2"}, None),
    ],
)
def test_when_to_come_back(status: int, headers: dict[str, str], seconds: float | None) -> None:
    assert seconds_to_wait(status, headers, NOW) == seconds


def busy(status: int, after: str) -> Fault:
    return Fault(status=status, headers={"retry-after": after}, body=b'{"error": {"message": "busy"}}')


@pytest.mark.parametrize("stream", [False, True])
async def test_a_busy_backend_is_waited_for_and_each_try_is_recorded(tmp_path: Path, stream: bool) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, busy_wait=5) as served:
        server.faults += [busy(429, "0.2"), busy(503, "0.3")]
        began = time.monotonic()
        response = await served.chat(session="s1", stream=stream)
        took = time.monotonic() - began
        trace = await served.trace(response)
    assert response.status_code == 200
    assert took >= 0.5
    assert [(attempt["status"], attempt["error"]) for attempt in trace["attempts"]] == [
        (429, "busy"),
        (503, "busy"),
        (200, None),
    ]
    assert (trace["status"], trace["fidelity"]) == ("ok", "exact")


async def test_no_longer_than_the_owner_wants(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, busy_wait=0.5) as served:
        server.faults += [busy(429, "0.3"), busy(429, "0.3")]
        response = await served.chat(session="s1")
        trace = await served.trace(response)
    assert (response.status_code, response.headers["retry-after"]) == (429, "0.3")
    assert (trace["status"], trace["http_status"], len(trace["attempts"])) == ("backend_error", 429, 2)


async def test_without_patience_the_agent_is_told_at_once(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        server.faults.append(busy(503, "0.1"))
        response = await served.chat(session="s1")
    assert (response.status_code, response.headers["retry-after"]) == (503, "0.1")
