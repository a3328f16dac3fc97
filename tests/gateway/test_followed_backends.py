"""What administrators do at one gateway is done at all of its database."""

from __future__ import annotations

import asyncio
from dataclasses import replace
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


async def test_what_is_changed_elsewhere_is_changed_here_and_the_calls_in_flight_are_still_its_own() -> None:
    backends = known("c")
    followed = Followed(backends, {})
    followed.take_over((A,))
    here = backends.get("a")
    here.began("s1")
    here.answered(100.0)
    changed = replace(A, weight=3.0, aliases={"o3": "m"}, state="draining")
    assert followed.take_over((changed,)) == []
    assert backends.get("a") is here
    assert (here.share, here.name_of("o3"), here.state, here.in_flight, here.calls) == (3.0, "m", "draining", 1, 1)


async def test_one_that_is_at_another_address_now_is_asked_anew_what_it_is() -> None:
    backends = known()
    followed = Followed(backends, {})
    followed.take_over((A,))
    here = backends.get("a")
    here.server = here.known_as = Server("vllm")
    followed.take_over((replace(A, url=B.url),))
    assert (here.settings.url, here.server, here.known_as) == (B.url, None, None)


def test_a_configured_one_is_weighed_drained_and_removed_as_elsewhere_and_stays_what_it_was_configured_as() -> None:
    backends = known("c")
    followed = Followed(backends, {})
    row = StoredBackend("c", "http://elsewhere", source="config", weight=0.5, state="removed", models=("x",))
    followed.take_over((row,))
    here = backends.get("c")
    assert (here.share, here.state, here.settings.url, here.settings.models) == (0.5, "removed", "http://c", ())
    followed.take_over(())
    assert (here.share, here.state) == (1.0, "serving")


def test_what_another_gateways_configuration_names_is_none_of_ours() -> None:
    backends = known("c")
    assert Followed(backends, {}).take_over((StoredBackend("d", "http://d", source="config"),)) == []
    assert names(backends) == ["c"]


async def test_two_gateways_agree_within_three_seconds_on_drains_weights_removals_and_where_a_session_went_on(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/promises.md F8."""
    monkeypatch.chdir(tmp_path)
    database = postgres.database()
    async with running(ScriptedServer("vllm")) as one, running(ScriptedServer("vllm")) as two:
        backends = (f"{one},name=a", f"{two},name=b")
        async with (
            gateway(tmp_path, *backends, database=database, detect_timeout=20.0) as here,
            gateway(tmp_path, *backends, database=database, detect_timeout=20.0) as there,
        ):

            async def told() -> dict[str, tuple[str, float]]:
                listed = (await there.agent.get("/api/admin/backends")).json()["items"]
                return {each["name"]: (each["state"], each["weight"]) for each in listed}

            async def agreed(name: str, state: str, weight: float) -> None:
                async with asyncio.timeout(3.0):
                    while (await told())[name] != (state, weight):
                        await asyncio.sleep(0.05)

            assert (await here.chat(session="s1")).status_code == 200
            home = (await here.agent.get("/api/sessions/s1")).json()["backend"]
            other = "ab".replace(home, "")
            await here.agent.patch(f"/api/admin/backends/{other}", json={"weight": 3})
            await agreed(other, "serving", 3.0)
            await here.agent.post(f"/api/admin/backends/{home}/drain")
            await agreed(home, "draining", 1.0)
            assert (await there.trace(await there.chat(session="s1")))["backend"] == home
            assert {(await there.trace(await there.chat(session=f"n{at}")))["backend"] for at in range(6)} == {other}
            await here.agent.delete(f"/api/admin/backends/{home}")
            await agreed(home, "removed", 1.0)
            assert (await there.trace(await there.chat(session="s1")))["backend"] == other
            await here.agent.post(f"/api/admin/backends/{home}/undrain")
            await agreed(home, "serving", 1.0)
            await asyncio.sleep(1.0)  # What is known of a session is looked at again.
            for each in (here, there):
                assert (await each.trace(await each.chat(session="s1")))["backend"] == other
