"""`pause`, `resume` and `weight-version` over a real gateway."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from gateway.cli import app
from gateway.commands.errors import CommandFailed, WrongUse
from gateway.commands.remote import Remote
from gateway.commands.screen import Screen
from gateway.commands.weights import Weights
from gateway.scripted import running
from tests.gateway.harness import until
from tests.gateway.weights.trained import Trained, gateway


class Shell:
    """Commands of one gateway, and what they wrote."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def run(self, command: Callable[[Weights], None], *, as_json: bool = False) -> tuple[str, str]:
        out, noted = io.StringIO(), io.StringIO()
        screen = Screen(Console(file=out, width=200), Console(file=noted, width=200), as_json)
        await asyncio.to_thread(command, Weights(Remote(self._url, None), screen))
        return out.getvalue(), noted.getvalue()


async def test_a_script_pauses_says_the_version_and_resumes(tmp_path: Path) -> None:
    async with running(Trained()) as backend, gateway(tmp_path, f"{backend},name=a") as served:
        shell = Shell(served.url)
        out, noted = await shell.run(lambda weights: weights.pause({"owner": "me"}, 5.0))
        pause_id = out.strip()
        assert "no call is in flight" in noted
        listed, _ = await shell.run(lambda weights: weights.list_pauses())
        assert listed.splitlines()[1].split("\t")[:3] == [pause_id, "all", "0"]
        told, _ = await shell.run(lambda weights: weights.set_version("v2", ["a"]))
        assert told.splitlines()[1].split("\t")[:3] == ["a", "v2", "administrator"]
        released, _ = await shell.run(lambda weights: weights.resume({"pause_id": pause_id}))
        assert released.strip() == pause_id
        _, nothing = await shell.run(lambda weights: weights.resume({"all": True}))
        assert nothing.strip() == "Nothing was paused."
        shown, _ = await shell.run(lambda weights: weights.show_versions(), as_json=True)
        assert json.loads(shown)["weight_version"] == "v2"
        events, _ = await shell.run(lambda weights: weights.show_events(5))
        assert [line.split("\t")[1:3] for line in events.splitlines()] == [["backend", "weight_version"], ["a", "v2"]]


async def test_calls_that_do_not_end_in_time_are_an_exit_status_and_the_pause_stands(tmp_path: Path) -> None:
    engine = Trained()
    async with running(engine) as backend, gateway(tmp_path, f"{backend},name=a") as served:
        engine.stall()
        calling = asyncio.create_task(served.chat())
        await until(lambda: engine.stalled)
        with pytest.raises(CommandFailed, match="1 calls are still in flight"):
            await Shell(served.url).run(lambda weights: weights.pause({"pause_id": "p"}, 0.1))
        assert [each["pause_id"] for each in (await served.agent.get("/api/admin/pause")).json()["items"]] == ["p"]
        engine.go_on()
        assert (await calling).status_code == 200


async def test_an_engine_that_refuses_is_named(tmp_path: Path) -> None:
    engine = Trained()
    engine.refusal = 404
    async with running(engine) as backend, gateway(tmp_path, f"{backend},name=a") as served:
        with pytest.raises(CommandFailed, match="VLLM_SERVER_DEV_MODE"):
            await Shell(served.url).run(lambda weights: weights.pause({"engine": "wait"}, 0.0))


def test_resume_asks_which() -> None:
    outcome = CliRunner().invoke(app, ["resume"])
    assert isinstance(outcome.exception, WrongUse)
