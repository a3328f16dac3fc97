"""`rollout-gateway backends`: what a person types, against a gateway that runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from gateway.cli import app
from gateway.commands.backends import NotDrained
from gateway.commands.errors import CommandFailed, WrongUse
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import Running, gateway


async def run(served: Running, *words: str) -> str:
    """What the command prints. Raises what it fails with."""
    result: Result = await asyncio.to_thread(CliRunner().invoke, app, ["backends", *words, "--url", served.url])
    if result.exception is not None:
        raise result.exception
    return result.stdout


async def test_a_server_is_added_changed_drained_and_removed_by_hand(tmp_path: Path) -> None:
    async with (
        running(ScriptedServer("vllm", version="0.32.0", model="qwen3-4b")) as one,
        running(ScriptedServer("sglang", version="0.5.20", model="llama-3")) as two,
        gateway(tmp_path, f"{one},name=gpu-1", detect_timeout=20.0) as served,
    ):
        added = await run(served, "add", two, "--name", "gpu-2", "--weight", "2", "--alias", "o3=llama-3")
        assert added == f"gpu-2: up, serving, sglang at {two}\n"
        await run(served, "probe", "gpu-1")
        header, first, second = (await run(served, "list")).splitlines()
        assert header.split("\t") == [
            *("backend", "health", "state", "in flight", "weight", "engine", "models", "weights", "from", "url"),
            "last error",
        ]
        assert first.split("\t")[:7] == ["gpu-1", "up", "serving", "0", "1", "vllm 0.32.0", "qwen3-4b"]
        assert second.split("\t")[4:7] == ["2", "sglang 0.5.20", "llama-3, o3"]
        await run(served, "change", "gpu-2", "--weight", "0.5", "--clear", "aliases")
        told = (await served.agent.get("/api/admin/backends")).json()["items"][1]
        assert (told["weight"], told["aliases"]) == (0.5, {})
        assert (await served.chat(session="s1", model="llama-3")).status_code == 200
        assert await run(served, "drain", "gpu-2") == f"gpu-2: up, draining, 1 sessions open, sglang at {two}\n"
        with pytest.raises(NotDrained, match="gpu-2 is not empty yet: draining, 1 sessions open, 0 calls in flight"):
            await run(served, "drain", "gpu-2", "--wait", "0.1")
        await served.agent.post("/api/sessions/s1/finish")
        assert await run(served, "drain", "gpu-2", "--wait", "40") == f"gpu-2: up, drained, sglang at {two}\n"
        assert await run(served, "undrain", "gpu-2") == f"gpu-2: up, serving, sglang at {two}\n"
        assert await run(served, "remove", "gpu-2") == ""
        assert len((await run(served, "list", "--json")).split('"name":')) == 2


async def test_what_the_gateway_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    async with running(ScriptedServer("vllm")) as one, gateway(tmp_path, f"{one},name=gpu-1") as served:
        with pytest.raises(CommandFailed, match="answers 404: There is no backend named `gpu-9`"):
            await run(served, "remove", "gpu-9")
        with pytest.raises(CommandFailed, match="`gpu-1` stands in the configuration"):
            await run(served, "change", "gpu-1", "--to", one)
        with pytest.raises(WrongUse, match="say what is to be another"):
            await run(served, "change", "gpu-1")
        with pytest.raises(WrongUse, match="--alias gpt-4o=qwen3-4b"):
            await run(served, "change", "gpu-1", "--alias", "gpt-4o")
