"""What administrators do at one gateway is done at all of its database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from adapters.server import Server
from gateway.backend import Backend
from gateway.backends import Backends
from gateway.followed_backends import Followed
from gateway.scripted import ScriptedServer, running
from gateway.settings import BackendSettings
from storage.records import StoredBackend
from tests.gateway.harness import gateway
from tests.postgres import Postgres

A = StoredBackend("a", "http://10.0.0.1:8000", models=("m",))
B = StoredBackend("b", "http://10.0.0.2:8000")


class Nobody:
    async def detect(self, backend: Backend) -> Server:
        raise AssertionError(backend.name)


def known(*names: str) -> Backends:
    return Backends([Backend(BackendSettings.of({"name": name, "url": "http://c"})) for name in names], Nobody())


def names(backends: Backends) -> list[str]:
    return [backend.name for backend in backends.all()]


def test_what_was_added_elsewhere_serves_here() -> None:
    backends = known("c")
    (came,) = Followed(backends, {}).take_over((A,))
    assert names(backends) == ["c", "a"]
    assert (came.name, came.source, came.settings.models) == ("a", "api", ("m",))


def test_what_was_removed_elsewhere_serves_no_more() -> None:
    backends = known("c")
    followed = Followed(backends, {})
    followed.take_over((A, B))
    followed.take_over((B,))
    assert names(backends) == ["c", "b"]


def test_what_is_just_being_added_here_stays() -> None:
    backends = known()
    followed = Followed(backends, {})
    followed.take_over(())
    backends.add(Backend(BackendSettings.of({"name": "a", "url": A.url}), source="api"))
    followed.take_over(())
    assert names(backends) == ["a"]


def test_one_that_was_removed_and_added_anew_is_the_new_one() -> None:
    backends = known()
    followed = Followed(backends, {})
    followed.take_over((A,))
    followed.take_over((StoredBackend("a", B.url),))
    assert backends.get("a").settings.url == B.url


def test_a_configured_one_is_nobodys_to_replace_or_remove() -> None:
    backends = known("a")
    followed = Followed(backends, {})
    followed.take_over((A,))
    followed.take_over(())
    assert [backend.settings.url for backend in backends.all()] == ["http://c"]


def test_one_whose_key_is_not_here_is_left_out_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    backends = known()
    followed = Followed(backends, {})
    keyed = StoredBackend("a", A.url, api_key_env="GPU_KEY")
    followed.take_over((keyed,))
    followed.take_over((keyed,))
    assert names(backends) == []
    assert [record.message for record in caplog.records] == [
        "backend a, added at another gateway, is left out: backend a: the environment variable GPU_KEY is not set"
    ]


async def test_a_backend_that_one_gateway_is_told_of_serves_calls_of_another(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # Where a gateway on PostgreSQL has its spool.
    database = postgres.database()
    async with (
        running(ScriptedServer("vllm")) as backend,
        gateway(tmp_path, database=database) as here,
        gateway(tmp_path, database=database) as there,
    ):
        assert (await there.chat()).status_code == 503
        added = await here.agent.post("/api/admin/backends", json={"url": backend, "name": "gpu-1"})
        assert added.status_code == 201
        async with asyncio.timeout(10):
            while (await there.chat()).status_code != 200:
                await asyncio.sleep(0.1)
        assert (await here.agent.delete("/api/admin/backends/gpu-1")).status_code == 204
        async with asyncio.timeout(10):
            while (await there.chat()).status_code != 503:
                await asyncio.sleep(0.1)
