"""What the log says of the backends at the start, and that nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from adapters.server import Server
from gateway.backend import Backend
from gateway.backends import Backends
from gateway.introduction import introduce, introduced
from gateway.scripted import ScriptedServer, running
from gateway.settings import BackendSettings
from gateway.upstream import NothingSent
from tests.gateway.harness import gateway


class Servers:
    """`a` is a vLLM, `b` is not there, `c` never answers, `d` is who knows what."""

    async def detect(self, backend: Backend) -> Server:
        if backend.name == "c":
            await asyncio.Event().wait()
        if backend.name == "d":
            return Server("openai")
        if backend.name == "b":
            raise NothingSent("b", "connection refused")
        return Server("vllm", "0.33.0", models=("m", "n"), known="detected")


def named(*names: str) -> Backends:
    return Backends([Backend(BackendSettings(url=f"http://{name}")) for name in names], Servers())


async def test_each_backend_has_a_line_that_says_what_it_is_or_that_it_is_not_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    backends = named("a", "b", "d")
    await introduce(backends)
    assert sorted((record.levelname, record.getMessage()) for record in caplog.records) == [
        ("INFO", "backend a is vllm 0.33.0 (detected), models: m, n"),
        ("WARNING", "backend b is not reachable yet, and is asked again at the first call: connection refused"),
        ("WARNING", "backend d answers, but names no engine and no models: it may be no inference server"),
    ]
    assert [backends.is_down(backend) for backend in backends.all()] == [False, True, False]


async def test_one_that_never_answers_holds_up_neither_the_start_nor_the_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    backends = named("a", "c")
    async with asyncio.timeout(5), introduced(backends):
        while not caplog.records:
            await asyncio.sleep(0)
        assert [record.getMessage() for record in caplog.records] == [
            "backend a is vllm 0.33.0 (detected), models: m, n"
        ]
    await backends.close()


async def test_a_gateway_asks_its_backends_before_anybody_calls(tmp_path: Path) -> None:
    server = ScriptedServer("sglang")
    async with running(server) as url, gateway(tmp_path, f"{url},name=a") as served, asyncio.timeout(5):
        while (await served.agent.get("/api/admin/backends")).json()["items"][0]["engine"] != "sglang":
            await asyncio.sleep(0.01)
    assert server.calls == []
