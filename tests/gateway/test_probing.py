"""Probes: what each answer makes of a backend, and that one which fails harms no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.backend import Backend
from gateway.backends import Backends
from gateway.detection import Detection, NotServing
from gateway.probing import Prober
from gateway.scripted import ReplayServer, ScriptedServer, free_port, running
from gateway.settings import BackendSettings
from gateway.upstream import Upstream
from tests.gateway.test_dead_backends import dead

OVERLOADED = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno"


@asynccontextmanager
async def probing(*urls: str) -> AsyncIterator[tuple[Prober, Backends]]:
    async with Upstream(connect_timeout=1.0) as upstream:
        known = [Backend(BackendSettings.parse(url)) for url in urls]
        backends = Backends(known, Detection(upstream, timeout=5.0))
        yield Prober(backends, upstream, patience=0.5, quiet=0.2), backends
        await backends.close()


async def test_one_that_answers_is_up_and_one_that_is_unknown_is_found_out() -> None:
    async with running(ScriptedServer("vllm")) as url, probing(url) as (prober, backends):
        (backend,) = backends.all()
        await prober.probe(backend)
        assert backend.server is not None
        assert (backends.health(backend), backend.server.engine) == ("up", "vllm")
        await prober.probe(backend)
        assert backends.health(backend) == "up"


async def test_one_that_is_gone_is_down_and_is_back_after_two_answers() -> None:
    port = free_port()
    async with probing(f"http://127.0.0.1:{port}") as (prober, backends):
        (backend,) = backends.all()
        async with running(ScriptedServer("vllm"), port=port):
            await prober.probe(backend)
        for _ in range(2):  # The first may find the connection that was kept, and that it has broken.
            await prober.probe(backend)
        assert (backends.health(backend), backend.server) == ("down", None)
        async with running(ScriptedServer("vllm"), port=port):
            await asyncio.sleep(0.6)  # Who was silent a moment ago is not asked again.
            await prober.probe(backend)
            assert (backends.health(backend), backends.is_alive(backend)) == ("half_open", True)
            await prober.probe(backend)
            assert backends.health(backend) == "up"


async def test_one_that_resets_connections_is_down_at_the_second_time() -> None:
    async with running(ScriptedServer("vllm")) as well, dead("resets") as gone, probing(well) as (prober, backends):
        (backend,) = backends.all()
        await prober.probe(backend)
        server = backend.server
        backend.settings = BackendSettings(url=gone, name=backend.name)
        await prober.probe(backend)
        assert (backends.health(backend), backend.server) == ("up", server)
        await prober.probe(backend)
        assert backends.health(backend) == "down"


async def test_a_proxy_before_a_server_that_is_gone_is_no_server() -> None:
    async with ReplayServer(OVERLOADED).running() as url, probing(url) as (_, backends):
        (backend,) = backends.all()
        with pytest.raises(NotServing, match="answers every question with an error, such as status 502"):
            await backends.server(backend)
        await backends.know(backend)
        assert backends.is_down(backend)


async def test_the_quiet_are_probed_again_and_again_while_the_context_is_open() -> None:
    server = ScriptedServer("vllm")
    async with running(server) as url, probing(url) as (prober, backends), asyncio.timeout(10):
        async with prober.running():
            while [call.route for call in server.requests].count("/health") < 4:
                await asyncio.sleep(0.05)
        asked = len(server.requests)
        await asyncio.sleep(0.6)
        assert len(server.requests) == asked
        assert backends.is_alive(backends.all()[0])
