"""`GET /v1/models`, and why there is no list."""

from __future__ import annotations

from pathlib import Path

from gateway.scripted import ReplayServer, ScriptedServer, free_port, running
from tests.gateway.harness import CHAT, HELLO, gateway

PAGE = b"<html><head><title>Error response</title></head></html>"
# What Python's own http.server says to a POST.
NO_SERVER = (
    b"HTTP/1.1 501 Unsupported method\r\nContent-Type: text/html;charset=utf-8\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(PAGE), PAGE)
)


async def test_one_backend_that_lists_is_enough(tmp_path: Path) -> None:
    dead = f"http://127.0.0.1:{free_port()},name=dead"
    async with running(ScriptedServer("vllm", model="m")) as url, gateway(tmp_path, dead, url) as served:
        response = await served.agent.get("/v1/models")
    assert [model["id"] for model in response.json()["data"]] == ["m"]


async def test_without_a_list_each_backend_is_named_with_its_reason(tmp_path: Path) -> None:
    dead = f"http://127.0.0.1:{free_port()},name=dead"
    async with (
        running(ScriptedServer("vllm", api_key="secret")) as locked,
        ReplayServer(NO_SERVER).running() as other,
        gateway(tmp_path, dead, f"{locked},name=locked", f"{other},name=other") as served,
    ):
        response = await served.agent.get("/v1/models")
    assert response.status_code == 503
    error = response.json()["error"]
    assert error["code"] == "no_backend"
    for said in (
        "`dead` can't be asked: no connection to the backend",
        "`locked` wants a key (api_key_env=): 401, Invalid API key",
        "`other` answers, but not as an inference server does: status 501 at /v1/models",
    ):
        assert said in error["message"]


async def test_without_a_backend_models_and_calls_say_how_to_have_one(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        for response in (await served.agent.get("/v1/models"), await served.agent.post(CHAT, json=HELLO)):
            assert response.status_code == 503
            assert "Start the gateway with `--backend http://HOST:PORT`" in response.json()["error"]["message"]
