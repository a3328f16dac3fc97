"""What an agent is told of a backend that could not serve its call."""

from __future__ import annotations

from pathlib import Path

from gateway.scripted import ReplayServer, free_port
from tests.gateway.harness import gateway
from tests.gateway.test_models import NO_SERVER


async def test_a_backend_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    async with gateway(tmp_path, f"http://127.0.0.1:{free_port()},name=gpu-7") as served:
        response = await served.chat()
    assert response.status_code == 503
    message = response.json()["error"]["message"]
    assert message.startswith("No backend could be reached. The last try was `gpu-7`: no connection")


async def test_a_program_that_refuses_whatever_it_is_asked_is_told_as_one(tmp_path: Path) -> None:
    async with ReplayServer(NO_SERVER).running() as url, gateway(tmp_path, f"{url},name=gpu-7") as served:
        response = await served.chat()
    assert response.status_code == 503
    message = response.json()["error"]["message"]
    assert message.endswith("was `gpu-7`: it answers every question with an error, such as status 501")
