"""A stream that waits for a whole answer is kept alive in every dialect, and its SDK reads it to the end
(docs/promises.md C7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from gateway.dialects.table import ENDPOINTS
from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.dialect_calls import ASKED
from tests.gateway.harness import Running, gateway

SAID = "Hello! This is the first answer of a small model."


def _openai(served: Running) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)


async def chat(served: Running, asked: Any) -> str | None:
    async with _openai(served) as client, client.chat.completions.stream(**asked) as stream:
        return (await stream.get_final_completion()).choices[0].message.content


async def completions(served: Running, asked: Any) -> str | None:
    async with _openai(served) as client:
        chunks = [chunk async for chunk in await client.completions.create(**asked, stream=True)]
        assert chunks[-1].choices[0].finish_reason == "stop"
        return "".join(chunk.choices[0].text for chunk in chunks)


async def messages(served: Running, asked: Any) -> str | None:
    client = AsyncAnthropic(base_url=served.url, api_key="none", max_retries=0)
    async with client, client.messages.stream(**asked) as stream:
        return await stream.get_final_text()


async def responses(served: Running, asked: Any) -> str | None:
    async with _openai(served) as client, client.responses.stream(**asked) as stream:
        return (await stream.get_final_response()).output_text


AGENTS: dict[str, Callable[[Running, Any], Awaitable[str | None]]] = {
    "/v1/chat/completions": chat,
    "/v1/completions": completions,
    "/v1/messages": messages,
    "/v1/responses": responses,
}


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_an_sdk_reads_to_its_end_a_stream_that_was_kept_alive(tmp_path: Path, path: str) -> None:
    """This engine is asked for whole chats. None is for a whole legacy completion, whose stream only begins late."""
    server = ScriptedServer("vllm", version="0.11.0", fault=Fault(delay=0.35))
    async with running(server) as backend, gateway(tmp_path, backend, keepalive_interval=0.1) as served:
        await served.agent.post(f"/api/admin/backends/{backend.removeprefix('http://')}/probe")
        response = await served.agent.post(path, json={**ASKED[path], "stream": True})
        assert await AGENTS[path](served, ASKED[path]) == SAID
        traces = (await served.agent.get("/api/traces")).json()["items"]
    assert response.content.startswith(b": keep-alive\n\n")
    plan = "streamed" if path == "/v1/completions" else "buffered"
    assert [(trace["plan"], trace["fidelity"]) for trace in traces] == [(plan, "exact")] * 2
