"""Which weights backends have: who says so, what becomes an event, and how it is asked for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from adapters.server import Server
from gateway.backend import Backend
from gateway.backends import Backends
from gateway.scripted import running
from gateway.settings import BackendSettings
from gateway.weights.versions import Versions
from storage.weights import BackendWeights
from tests.gateway.api.harness import api
from tests.gateway.harness import Running
from tests.gateway.weights.trained import Trained, gateway, post


async def events(served: Running, **filters: Any) -> list[tuple[str, str | None, str, str]]:
    """`(backend, before, after, who said so)`, once there are any."""
    listed = (await served.agent.get("/api/admin/weight-events", params=filters)).json()
    return [(each["backend"], each["previous"], each["weight_version"], each["source"]) for each in listed["items"]]


async def until_events(served: Running, count: int) -> list[tuple[str, str | None, str, str]]:
    for _ in range(1000):
        if len(told := await events(served)) >= count:
            return told
    raise AssertionError(told)


async def test_an_administrator_says_the_version_of_all_or_some(tmp_path: Path) -> None:
    async with api(tmp_path, backends=("http://a:8000,name=a", "http://b:8000,name=b")) as served:
        nobody = (await served.client.get("/api/admin/weight-version")).json()
        assert nobody["weight_version"] is None
        assert nobody["items"][0] == {"backend": "a", "weight_version": None, "source": None, "changed_at": None}
        told = (await served.client.put("/api/admin/weight-version", json={"weight_version": "7"})).json()
        assert told["weight_version"] == "7"
        one = {"weight_version": "8", "backends": ["b"]}
        told = (await served.client.post("/api/admin/weight-version", json=one)).json()
        assert told["weight_version"] is None
        assert [(each["backend"], each["weight_version"], each["source"]) for each in told["items"]] == [
            ("a", "7", "administrator"),
            ("b", "8", "administrator"),
        ]
        listed = (await served.client.get("/api/admin/backends")).json()["items"]
        assert [each["weight_version"] for each in listed] == ["7", "8"]
        assert (await served.client.put("/api/admin/weight-version", json=one)).status_code == 200
        changes = (await served.client.get("/api/admin/weight-events")).json()["items"]
        assert [(each["backend"], each["previous"], each["weight_version"]) for each in changes] == [
            ("a", None, "7"),
            ("b", None, "7"),
            ("b", "7", "8"),
        ]
        assert {each["gateway_id"] for each in changes} == {"gateway-1"}


async def test_events_are_asked_for_by_backend_and_time_a_page_at_a_time(tmp_path: Path) -> None:
    async with api(tmp_path, backends=("http://a:8000,name=a", "http://b:8000,name=b")) as served:
        for version in ("1", "2", "3"):
            await served.client.put("/api/admin/weight-version", json={"weight_version": version})
        path, seen, cursor = "/api/admin/weight-events", [], None
        while True:
            asked = {"limit": 2, **({"cursor": cursor} if cursor else {})}
            page = (await served.client.get(path, params=asked)).json()
            seen += page["items"]
            if (cursor := page["next"]) is None:
                break
        assert len(seen) == 6
        of_a = (await served.client.get(path, params={"backend": "a"})).json()["items"]
        assert [each["weight_version"] for each in of_a] == ["1", "2", "3"]
        later = (await served.client.get(path, params={"backend": "a", "since": of_a[1]["at"]})).json()["items"]
        before = (await served.client.get(path, params={"backend": "a", "until": of_a[1]["at"]})).json()["items"]
        assert ([each["weight_version"] for each in later], len(before)) == (["2", "3"], 1)


async def test_what_is_no_version_and_no_backend_is_refused(tmp_path: Path) -> None:
    async with api(tmp_path, backends=("http://a:8000,name=a",)) as served:
        for body, status in (
            ({"weight_version": "mixed"}, 400),
            ({"weight_version": ""}, 400),
            ({"weight_version": "1", "backends": []}, 400),
            ({"weight_version": "1", "backends": ["z"]}, 404),
            ({"version": "1"}, 400),
        ):
            assert (await served.client.put("/api/admin/weight-version", json=body)).status_code == status, body
        for path, body in (
            ("pause", {"backends": ["z"]}),
            ("resume", {"backends": ["z"]}),
        ):
            assert (await served.client.post(f"/api/admin/{path}", json=body)).status_code == 404, path
        for path, told in (("resume", {}), ("pause", {"ttl": 0}), ("pause", {"mode": "stop"}), ("pause", {"wait": 61})):
            assert (await served.client.post(f"/api/admin/{path}", json=told)).status_code == 400, told
        assert (await served.client.get("/api/admin/pause")).json()["items"] == []


async def test_what_an_engine_says_of_an_answer_is_an_event_and_the_version_of_the_next(tmp_path: Path) -> None:
    """An engine that tells spans, and whose trainer told it and not the gateway."""
    engine = Trained(tells=True, weights="step-1")
    async with running(engine) as backend, gateway(tmp_path, f"{backend},name=a") as served:
        await post(served, "weight-version", weight_version="v0")
        await served.chat()
        engine.load("step-2")
        for stream in (False, True):
            assert (await served.trace(await served.chat(stream=stream)))["weight_version"] == "step-2"
        assert await until_events(served, 3) == [
            ("a", None, "v0", "administrator"),
            ("a", "v0", "step-1", "engine"),
            ("a", "step-1", "step-2", "engine"),
        ]
        told = (await served.agent.get("/api/admin/weight-version")).json()
        assert (told["weight_version"], told["items"][0]["source"]) == ("step-2", "engine")


async def test_an_engine_that_was_told_no_version_does_not_take_the_administrators_away(tmp_path: Path) -> None:
    """It calls them `default`, whatever its trainer loads."""
    for version in ("0.33.0", "0.20.2"):
        folder = tmp_path / version
        folder.mkdir()
        engine = Trained(version=version)
        async with running(engine) as backend, gateway(folder, f"{backend},name=a") as served:
            await post(served, "weight-version", weight_version="v7")
            trace = await served.trace(await served.chat())
            assert trace["weight_version"] == "v7"
            spans = trace["choices"][0]["weight_versions"]
            assert {span["version"] for span in spans or ()} <= {"v7"}
            assert await events(served) == [("a", None, "v7", "administrator")]


async def test_a_server_that_says_its_weights_when_it_is_asked_what_it_is_is_heard(tmp_path: Path) -> None:
    engine = Trained("sglang", version="0.5.23", tells=True, weights="step-3")
    async with running(engine) as backend, gateway(tmp_path, f"{backend},name=a") as served:
        assert await until_events(served, 1) == [("a", None, "step-3", "detection")]
        engine.load("step-4")
        await served.agent.post("/api/admin/backends/a/probe")
        assert (await until_events(served, 2))[1] == ("a", "step-3", "step-4", "detection")
        # What it said then is not said again by whoever looks at it later.
        await post(served, "weight-version", weight_version="v5")
        await served.agent.post("/api/admin/backends/a/probe")
        engine.script = replace(engine.script, weight_version="default")  # type: ignore[type-var]
        assert (await served.trace(await served.chat()))["weight_version"] == "v5"


async def test_a_backend_that_comes_anew_under_its_name_has_the_version_that_was_told_of_it(tmp_path: Path) -> None:
    engine = Trained(version="0.20.2")
    async with running(engine) as backend, gateway(tmp_path) as served:
        named = {"url": backend, "name": "a"}
        assert (await served.agent.post("/api/admin/backends", json=named)).status_code == 201
        await post(served, "weight-version", weight_version="v7")
        assert (await served.agent.delete("/api/admin/backends/a")).status_code == 204
        assert (await served.agent.post("/api/admin/backends", json=named)).status_code == 201
        await asyncio.sleep(1.0)
        assert (await served.trace(await served.chat()))["weight_version"] == "v7"


async def test_a_backend_that_is_added_with_its_version_has_it_at_its_first_call(tmp_path: Path) -> None:
    engine = Trained(version="0.20.2")
    async with running(engine) as backend, gateway(tmp_path) as served:
        known = {"url": backend, "name": "a", "weight_version": "v7"}
        added = await served.agent.post("/api/admin/backends", json=known)
        assert (added.status_code, added.json()["weight_version"]) == (201, "v7")
        assert (await served.trace(await served.chat()))["weight_version"] == "v7"
        assert await events(served) == [("a", None, "v7", "administrator")]
        mixed = await served.agent.post("/api/admin/backends", json=known | {"name": "b", "weight_version": "mixed"})
        assert mixed.status_code == 400


class Nobody:
    """No server is asked."""

    async def detect(self, backend: Backend) -> Server:
        raise NotImplementedError


async def test_what_was_told_of_a_backend_that_another_gateway_adds_is_known_when_it_comes() -> None:
    backends = Backends([], Nobody())
    versions = Versions(backends, "gateway-2")
    versions.take_over([BackendWeights("a", "v7", "administrator", datetime(2026, 11, 21, tzinfo=UTC))])
    backends.add(Backend(BackendSettings.parse("http://a:8000,name=a"), source="api"))
    versions.look()
    assert backends.get("a").weight_version == "v7"
