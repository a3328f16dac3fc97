"""`count_tokens` is answered by whoever knows best, says who that was, and leaves no trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anthropic
import pytest

from adapters.request import CanonicalRequest
from gateway.dialects.messages.dialect import MessagesDialect
from gateway.scripted import ScriptedServer
from gateway.token_counter import estimate
from tests.gateway.anthropic_client import ASKED, served
from tests.gateway.harness import traces_in

COUNT = "/v1/messages/count_tokens"
COUNTED: Any = {name: ASKED[name] for name in ("model", "messages", "tools")}


@pytest.mark.parametrize(("engine", "version"), [("vllm", "0.33.0"), ("sglang", "0.5.23")])
async def test_a_backend_that_counts_says_what_the_call_will_cost(tmp_path: Path, engine: str, version: str) -> None:
    server = ScriptedServer(engine, version=version)
    async with served(tmp_path, server) as (client, _):
        counted = await client.messages.with_raw_response.count_tokens(**COUNTED, system="Be brief.")
        answer = await client.messages.create(**ASKED, system="Be brief.")
    assert counted.headers["x-counted-by"] == "backend"
    assert counted.headers["request-id"]
    assert (await counted.parse()).input_tokens == answer.usage.input_tokens
    assert [trace.usage is not None for trace in await traces_in(tmp_path / "rollouts.db")] == [True]


@pytest.mark.parametrize("prefix", ["", "/sessions/s1"])
async def test_with_nobody_who_counts_there_is_an_estimate(tmp_path: Path, prefix: str) -> None:
    async with served(tmp_path, ScriptedServer("openai")) as (_, through):
        response = await through.agent.post(f"{prefix}{COUNT}?beta=true", json=COUNTED)
    assert response.headers["x-counted-by"] == "estimate"
    assert 30 < response.json()["input_tokens"] < 100
    assert await traces_in(tmp_path / "rollouts.db") == []


async def test_a_backend_that_refuses_to_count_is_no_error(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with served(tmp_path, server) as (_, through):
        server.api_key = "from now on"
        response = await through.agent.post(COUNT, json=COUNTED)
    assert (response.status_code, response.headers["x-counted-by"]) == (200, "estimate")


async def test_a_bad_request_is_refused_as_a_call_would_be(tmp_path: Path) -> None:
    async with served(tmp_path, ScriptedServer("vllm")) as (client, through):
        with pytest.raises(anthropic.BadRequestError, match="messages: at least one message is required"):
            await client.messages.count_tokens(model="scripted", messages=[])
        with pytest.raises(anthropic.NotFoundError):
            await client.messages.count_tokens(model="another", messages=COUNTED["messages"])
        response = await through.agent.get(COUNT)
        assert (response.status_code, response.json()["type"]) == (405, "error")
        response = await through.agent.post(COUNT, content=b" " * (65 << 20))
        assert (response.status_code, response.json()["error"]["type"]) == (413, "request_too_large")


async def test_who_may_not_call_may_not_count(tmp_path: Path) -> None:
    async with served(tmp_path, ScriptedServer("vllm"), keys=["secret"], admin_key="admin") as (_, through):
        response = await through.agent.post(COUNT, json=COUNTED)
    assert (response.status_code, response.json()["error"]["type"]) == (401, "authentication_error")


def _estimated(**fields: Any) -> int:
    return estimate(MessagesDialect().read_count(json.dumps({**COUNTED, "tools": [], **fields}).encode()))


def test_an_estimate_grows_with_the_text_and_not_with_the_bytes_of_a_picture() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}}
    few = _estimated(messages=[{"role": "user", "content": "word " * 10}])
    many = _estimated(messages=[{"role": "user", "content": "word " * 1000}])
    seen = _estimated(messages=[{"role": "user", "content": [picture, {"type": "text", "text": "What is it?"}]}])
    assert 10 < few < 30
    assert 1000 < many < 1500
    assert seen < 60
    assert estimate(CanonicalRequest("chat", {}, None)) == 0
