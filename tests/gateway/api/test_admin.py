"""`/api/admin`: backends and status."""

from __future__ import annotations

import socket
from pathlib import Path

from adapters.server import Server
from tests.gateway.api.harness import api

VLLM = Server("vllm", "0.20.0", models=("m",), known="detected")


async def test_a_backend_is_asked_before_it_serves_and_kept(tmp_path: Path) -> None:
    async with api(tmp_path, environ={"GPU_KEY": "secret-of-the-gpu"}) as served:
        served.detector.servers["http://10.0.0.1:8000/a"] = VLLM
        added = await served.client.post(
            "/api/admin/backends",
            json={"url": "http://10.0.0.1:8000/a/v1/", "name": "gpu-1", "api_key_env": "GPU_KEY"},
        )
        assert added.status_code == 201
        told = added.json()
        assert (told["name"], told["url"], told["source"]) == ("gpu-1", "http://10.0.0.1:8000/a", "api")
        assert (told["engine"], told["version"], told["models"]) == ("vllm", "0.20.0", ["m"])
        assert (told["known"], told["health"], told["in_flight"]) == ("detected", "up", 0)
        assert (await served.client.get("/api/admin/backends")).json()["items"] == [told]
        assert "secret-of-the-gpu" not in added.text
        (backend,) = served.backends.all()
        assert backend.headers() == [("authorization", "Bearer secret-of-the-gpu")]
        (stored,) = await served.store.backends.every()
        assert (stored.name, stored.url, stored.api_key_env) == ("gpu-1", "http://10.0.0.1:8000/a", "GPU_KEY")


async def test_a_backend_that_does_not_answer_is_not_added(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        answer = await served.client.post("/api/admin/backends", json={"url": "http://10.0.0.1:8000"})
        assert (answer.status_code, answer.json()["code"]) == (502, "backend_unreachable")
        assert served.backends.all() == []
        assert await served.store.backends.every() == ()


async def test_a_backend_whose_tokenizer_is_not_there_is_not_added(tmp_path: Path) -> None:
    named = {"url": "http://10.0.0.1:8000", "engine": "openai", "tokenizer": "/models/m"}
    async with api(tmp_path) as served:
        served.detector.servers["http://10.0.0.1:8000"] = Server("openai", models=("m",))
        refused = await served.client.post("/api/admin/backends", json=named)
        assert (refused.status_code, refused.json()["code"]) == (400, "tokenizer_unavailable")
        assert refused.json()["detail"] == (
            "The tokenizer /models/m is no folder of this machine; nothing is downloaded."
        )
        assert served.backends.all() == []
        assert await served.store.backends.every() == ()
        served.tokenizers.folders = {"/models/m"}
        assert (await served.client.post("/api/admin/backends", json=named)).status_code == 201


async def test_a_name_is_given_once_and_is_the_address_unless_told(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        served.detector.servers["http://10.0.0.1:8000/a"] = VLLM
        first = await served.client.post("/api/admin/backends", json={"url": "http://10.0.0.1:8000/a"})
        assert first.json()["name"] == "10.0.0.1:8000/a"
        again = await served.client.post("/api/admin/backends", json={"url": "http://10.0.0.1:8000/a"})
        assert (again.status_code, again.json()["code"]) == (409, "backend_exists")
        assert served.detector.asked == ["http://10.0.0.1:8000/a"]
        probed = await served.client.post("/api/admin/backends/10.0.0.1:8000/a/probe")
        assert probed.status_code == 200
        removed = await served.client.delete("/api/admin/backends/10.0.0.1:8000/a")
        assert removed.status_code == 204
        assert served.backends.all() == []
        assert await served.store.backends.every() == ()
        gone = await served.client.delete("/api/admin/backends/10.0.0.1:8000/a")
        assert (gone.status_code, gone.json()["code"]) == (404, "backend_not_found")


async def test_a_probe_asks_again_and_says_how_it_went(tmp_path: Path) -> None:
    async with api(tmp_path, backends=("http://10.0.0.1:8000,name=a",)) as served:
        listed = (await served.client.get("/api/admin/backends")).json()["items"]
        assert [(each["name"], each["health"], each["engine"]) for each in listed] == [("a", "unknown", None)]
        failed = await served.client.post("/api/admin/backends/a/probe")
        assert (failed.status_code, failed.json()["code"]) == (502, "backend_unreachable")
        (down,) = (await served.client.get("/api/admin/backends")).json()["items"]
        assert (down["health"], down["last_error"], down["failures"]) == ("down", "connection refused", 1)
        served.detector.servers["http://10.0.0.1:8000"] = VLLM
        up = (await served.client.post("/api/admin/backends/a/probe")).json()
        assert (up["health"], up["last_error"], up["failures"], up["engine"]) == ("up", None, 0, "vllm")


async def test_a_backend_is_no_address_that_gives_away_secrets_or_the_gateway_itself(tmp_path: Path) -> None:
    refused = [
        ("http://169.254.169.254", "link-local"),
        ("http://169.254.169.254:80/latest", "link-local"),
        ("http://2852039166", "link-local"),
        ("http://0xA9FEA9FE", "link-local"),
        ("http://[fe80::1]:8000", "link-local"),
        ("http://[::ffff:169.254.169.254]", "link-local"),
        ("http://127.0.0.1:9090", "own address"),
        ("http://localhost:9090/x", "own address"),
        ("http://[::1]:9090", "own address"),
        ("http://0.0.0.0:9090", "own address"),
        ("http://127.1:9090", "own address"),
        ("https://gateway.example/prefix", "own address"),
        ("ftp://10.0.0.1", "http:// or https://"),
        ("file:///etc/passwd", "http:// or https://"),
        ("10.0.0.1:8000", "http:// or https://"),
        ("http://user:pass@10.0.0.1", "credentials"),
        ("http://10.0.0.1?x=1", "query or fragment"),
        ("http://10.0.0.1:99999", "not a URL"),
        ("", "at least 1 character"),
    ]
    async with api(tmp_path, public_url="https://gateway.example") as served:
        for url, sentence in refused:
            answer = await served.client.post("/api/admin/backends", json={"url": url})
            assert answer.status_code == 400, url
            assert sentence in answer.json()["detail"], url
            assert "pass@" not in answer.text
        assert served.detector.asked == []


async def test_a_name_is_looked_up_before_it_is_trusted(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        here = socket.gethostname()
        answer = await served.client.post("/api/admin/backends", json={"url": f"http://{here}.invalid:8000"})
        assert answer.status_code == 502


async def test_what_is_wrong_with_a_backend_is_named(tmp_path: Path) -> None:
    async with api(tmp_path, environ={"ROLLOUT_GATEWAY_ADMIN_KEY": "admin"}) as served:
        for extra, sentence in (
            ({"engine": "vlm"}, "did you mean vllm?"),
            ({"engine": "vllm", "features": ["no_parserz"]}, "did you mean no_parsers?"),
            ({"engine": "vllm", "version": "banana"}, "no release's number"),
            ({"engin": "vllm"}, "did you mean engine?"),
            ({"api_key": "secret"}, "did you mean api_key_env?"),
            ({"api_key_env": "NOT_SET"}, "no variable NOT_SET"),
            ({"api_key_env": "ROLLOUT_GATEWAY_ADMIN_KEY"}, "a secret of the gateway's own"),
            ({"api_key_env": "rollout_gateway_keys"}, "a secret of the gateway's own"),
        ):
            answer = await served.client.post("/api/admin/backends", json={"url": "http://10.0.0.1:8000", **extra})
            assert answer.status_code == 400, extra
            assert sentence in answer.json()["detail"]


async def test_status_tells_how_the_gateway_does_and_none_of_its_secrets(tmp_path: Path) -> None:
    async with api(
        tmp_path, backends=("http://10.0.0.1:8000,name=a",), admin_key="secret-admin", keys=("secret-agents",)
    ) as served:
        answer = await served.client.get("/api/admin/status", headers={"x-api-key": "secret-admin"})
    told = answer.json()
    assert told["gateway_id"] == "gateway-1"
    assert told["calls"] == {"answered": 3, "recorded": 3, "in_flight": 0}
    assert told["store"]["writer_alive"] is True
    assert [backend["name"] for backend in told["backends"]] == ["a"]
    assert told["settings"]["capture"] == "exact"
    assert (told["settings"]["keys"], told["settings"]["admin_key"]) == (1, True)
    assert told["uptime_seconds"] >= 0
    assert "secret-" not in answer.text
