"""`/api/admin/backends`: changing, draining, weighing and removing them while they serve."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from adapters.schema import Session
from adapters.server import Server
from gateway.known_backends import known_backends
from tests.gateway.api.harness import Api, api

ADDED = "http://10.0.0.1:8000"
MOVED = "http://10.0.0.2:8000"
CONFIGURED = "http://10.0.0.9:8000"
VLLM = Server("vllm", "0.20.0", models=("m",), known="detected")
SGLANG = Server("sglang", "0.5.20", models=("n",), known="detected")
NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
ENVIRON = {"GPU_KEY": "sk-gpu", "OTHER_KEY": "sk-other"}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Api]:
    """One backend of the configuration, `c`, and one that was added, `a`."""
    async with api(tmp_path, backends=(f"{CONFIGURED},name=c,weight=2",), environ=ENVIRON) as served:
        served.detector.servers = {ADDED: VLLM, MOVED: SGLANG, CONFIGURED: VLLM}
        named = {"url": ADDED, "name": "a", "api_key_env": "GPU_KEY", "aliases": {"gpt-4o": "m"}}
        assert (await served.client.post("/api/admin/backends", json=named)).status_code == 201
        yield served


async def change(served: Api, name: str, **changes: Any) -> tuple[int, dict[str, Any]]:
    answer = await served.client.patch(f"/api/admin/backends/{name}", json=changes)
    return answer.status_code, answer.json()


async def test_the_list_tells_of_each_how_it_is_used(served: Api) -> None:
    listed = {each["name"]: each for each in (await served.client.get("/api/admin/backends")).json()["items"]}
    assert [(each["source"], each["state"], each["weight"], each["aliases"]) for each in listed.values()] == [
        ("config", "serving", 2.0, {}),
        ("api", "serving", 1.0, {"gpt-4o": "m"}),
    ]
    assert [(each["health"], each["slow"], each["open_sessions"], each["drained"]) for each in listed.values()] == [
        ("unknown", False, None, False),
        ("up", False, None, False),
    ]


async def test_what_is_changed_holds_from_the_next_call_on_and_is_kept(served: Api) -> None:
    status, told = await change(served, "a", models=["m", "qwen*"], weight=3, aliases={"o3": "m"})
    assert (status, told["models"], told["weight"], told["aliases"]) == (200, ["m", "qwen*"], 3.0, {"o3": "m"})
    (stored,) = await served.store.backends.every()
    assert (stored.models, stored.weight, stored.aliases) == (("m", "qwen*"), 3.0, {"o3": "m"})
    assert stored.api_key_env == "GPU_KEY", "what was not said stays"
    backend = served.backends.get("a")
    assert (backend.share, backend.may_serve("qwen-3"), backend.name_of("o3")) == (3.0, True, "m")


async def test_another_address_takes_the_key_away_and_is_asked_first(served: Api) -> None:
    status, told = await change(served, "a", url=f"{MOVED}/v1")
    assert (status, told["url"], told["api_key_env"], told["engine"], told["models"]) == (
        200,
        MOVED,
        None,
        "sglang",
        ["n"],
    )
    backend = served.backends.get("a")
    assert backend.headers() == [], "the old server's key is not shown to the new one"
    (stored,) = await served.store.backends.every()
    assert (stored.url, stored.api_key_env) == (MOVED, None)


async def test_a_key_that_is_said_with_the_address_is_its_key(served: Api) -> None:
    await change(served, "a", url=MOVED, api_key_env="OTHER_KEY")
    assert served.backends.get("a").headers() == [("authorization", "Bearer sk-other")]


async def test_an_address_where_nobody_answers_changes_nothing(served: Api) -> None:
    status, told = await change(served, "a", url="http://10.0.0.3:8000")
    assert (status, told["code"]) == (502, "backend_unreachable")
    backend = served.backends.get("a")
    assert (backend.settings.url, backend.server) == (ADDED, VLLM)
    assert [stored.url for stored in await served.store.backends.every()] == [ADDED]


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({}, 400, "say what is to be another"),
        ({"url": None}, 400, "a backend has a URL"),
        ({"url": "http://169.254.169.254"}, 400, "link-local"),
        ({"control_urls": ["http://169.254.169.254"]}, 400, "link-local"),
        ({"url": "http://127.0.0.1:9090"}, 400, "own address"),
        ({"weight": 0}, 400, "greater than 0"),
        ({"engine": "vlm"}, 400, "did you mean vllm?"),
        ({"api_key": "sk"}, 400, "did you mean api_key_env?"),
        ({"api_key_env": "ROLLOUT_GATEWAY_ADMIN_KEY"}, 400, "a secret of the gateway's own"),
        ({"state": "draining"}, 400, "unknown"),
    ],
)
async def test_what_can_not_be_is_refused_and_changes_nothing(
    served: Api, changes: dict[str, Any], status: int, says: str
) -> None:
    before = await served.store.backends.every()
    answered, told = await change(served, "a", **changes)
    assert (answered, says in told["detail"]) == (status, True), told
    assert await served.store.backends.every() == before


async def test_what_answers_but_is_no_inference_server_is_refused_unless_its_engine_is_said(served: Api) -> None:
    served.detector.servers["http://10.0.0.4"] = Server("openai")
    named = {"url": "http://10.0.0.4", "name": "page"}
    refused = await served.client.post("/api/admin/backends", json=named)
    assert (refused.status_code, refused.json()["code"]) == (400, "no_inference_server")
    assert (await change(served, "a", url="http://10.0.0.4"))[1]["code"] == "no_inference_server"
    assert (await served.client.post("/api/admin/backends", json={**named, "engine": "openai"})).status_code == 201


async def test_of_a_configured_one_the_weight_is_changed_and_the_rest_stands_in_the_configuration(served: Api) -> None:
    status, told = await change(served, "c", url=ADDED, models=["m"])
    assert (status, told["code"]) == (409, "backend_configured")
    assert "`c` stands in the configuration" in told["detail"]
    assert (await change(served, "c", weight=0.5))[1]["weight"] == 0.5
    assert (await change(served, "c", weight=None))[1]["weight"] == 2.0, "as it is configured"


async def test_a_drain_says_when_nobody_is_there_any_more(served: Api) -> None:
    await served.sessions.create(Session("s1", NOW, backend="a"))
    draining = (await served.client.post("/api/admin/backends/a/drain")).json()
    assert (draining["state"], draining["open_sessions"], draining["drained"]) == ("draining", 1, False)
    served.backends.get("a").began("s1")
    await served.sessions.finish("s1")
    busy = (await served.client.post("/api/admin/backends/a/drain?wait=0.1")).json()
    assert (busy["open_sessions"], busy["in_flight"], busy["drained"]) == (0, 1, False)
    served.backends.get("a").ended("s1", 0.0)
    empty = (await served.client.post("/api/admin/backends/a/drain?wait=60")).json()
    assert (empty["open_sessions"], empty["drained"]) == (0, True)
    again = (await served.client.post("/api/admin/backends/a/undrain")).json()
    assert (again["state"], again["open_sessions"]) == ("serving", None)


async def test_what_was_done_outlives_the_process(served: Api) -> None:
    await served.client.post("/api/admin/backends/a/drain")
    await served.client.post("/api/admin/backends/c/drain")
    await change(served, "c", weight=7)
    configured = served.parts.settings.model_copy(update={"backends": (served.backends.get("c").settings,)})
    again = {each.name: each for each in await known_backends(configured, served.store, ENVIRON)}
    assert {name: (each.source, each.state, each.share) for name, each in again.items()} == {
        "c": ("config", "draining", 7.0),
        "a": ("api", "draining", 1.0),
    }


async def test_a_configured_one_that_is_removed_stays_so_over_a_restart_until_it_is_undrained(served: Api) -> None:
    assert (await served.client.delete("/api/admin/backends/c")).status_code == 204
    listed = (await served.client.get("/api/admin/backends")).json()["items"]
    assert [(each["name"], each["state"]) for each in listed] == [("c", "removed"), ("a", "serving")]
    assert [backend.name for backend in served.backends.present()] == ["a"]
    configured = served.parts.settings.model_copy(update={"backends": (served.backends.get("c").settings,)})
    again = {each.name: each.state for each in await known_backends(configured, served.store, ENVIRON)}
    assert again == {"c": "removed", "a": "serving"}
    back = (await served.client.post("/api/admin/backends/c/undrain")).json()
    assert back["state"] == "serving"


async def test_a_change_of_one_that_was_removed_elsewhere_brings_it_not_back(served: Api) -> None:
    await served.store.backends.remove("a")
    status, told = await change(served, "a", weight=2)
    assert (status, told["code"]) == (404, "backend_not_found")
    assert await served.store.backends.every() == ()


async def test_two_changes_at_two_gateways_both_stay(served: Api) -> None:
    (stored,) = await served.store.backends.every()
    await served.store.backends.change(replace(stored, state="draining"), ["state"])
    await change(served, "a", weight=2)
    (now,) = await served.store.backends.every()
    assert (now.state, now.weight) == ("draining", 2.0)
