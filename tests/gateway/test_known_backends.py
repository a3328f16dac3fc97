"""The backends that a gateway starts with."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.server import Server
from gateway.known_backends import known_backends
from gateway.settings import BackendSettings, load
from storage.records import StoredBackend
from storage.store import Store
from tests.gateway.api.harness import api

URL = "http://10.0.0.1:8000"
ENVIRON = {"GPU_KEY": "sk-gpu"}


async def known_after_restart(tmp_path: Path, *configured: str, **environ: str) -> dict[str, BackendSettings]:
    database = f"sqlite:///{tmp_path / 'rollouts.db'}"
    store = Store.open(database, gateway_id="gateway-2")
    try:
        settings = load(environ={}, flags={"database": database, "backends": configured})
        return {backend.name: backend.settings for backend in await known_backends(settings, store, environ)}
    finally:
        await store.close()


async def test_a_backend_that_was_added_is_the_same_after_a_restart(tmp_path: Path) -> None:
    named = {
        "url": URL,
        "name": "gpu-1",
        "engine": "sglang",
        "version": "0.5.9",
        "variant": "agentcore",
        "features": ["patched_token_ids", "sglext"],
        "models": ["m", "qwen*"],
        "tokenizer": "/models/m",
        "api_key_env": "GPU_KEY",
        "control_urls": ["http://10.0.0.1:9000"],
        "weight": 2.5,
        "aliases": {"gpt-4o": "m"},
    }
    assert set(named) == set(BackendSettings.model_fields) - {"api_key"}
    async with api(tmp_path, environ=ENVIRON) as served:
        served.detector.servers[URL] = Server("sglang", "0.5.9", models=("m",), known="configured")
        served.tokenizers.folders = {"/models/m"}
        added = await served.client.post("/api/admin/backends", json=named)
        assert added.status_code == 201
        (before,) = served.backends.all()
    assert await known_after_restart(tmp_path, **ENVIRON) == {"gpu-1": before.settings}
    assert before.settings.models == ("m", "qwen*")


async def test_of_two_with_one_name_the_configured_one_serves(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        served.detector.servers[URL] = Server("vllm", "0.20.0", models=("m",), known="detected")
        await served.client.post("/api/admin/backends", json={"url": URL, "name": "a"})
    known = await known_after_restart(tmp_path, "http://10.0.0.2:8000,name=a")
    assert {name: settings.url for name, settings in known.items()} == {"a": "http://10.0.0.2:8000"}


async def test_one_whose_key_is_missing_does_not_keep_the_others_from_serving(tmp_path: Path) -> None:
    async with api(tmp_path, environ=ENVIRON) as served:
        served.detector.servers[URL] = Server("vllm", "0.20.0", models=("m",), known="detected")
        for extra in ({"name": "a", "api_key_env": "GPU_KEY"}, {"name": "b"}):
            await served.client.post("/api/admin/backends", json={"url": URL, **extra})
    assert list(await known_after_restart(tmp_path)) == ["b"]


async def test_one_that_this_version_would_not_heed_is_left_out_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with api(tmp_path) as served:
        await served.store.backends.put(StoredBackend("a", URL, engine="vllm", features=("given_up",)))
        await served.store.backends.put(StoredBackend("b", URL))
    assert list(await known_after_restart(tmp_path)) == ["b"]
    assert "backend a, added over HTTP, is left out: feature 'given_up' of the engine vllm is unknown" in caplog.text
