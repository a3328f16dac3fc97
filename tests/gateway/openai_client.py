"""OpenAI's SDK as a client of a gateway, for tests of the `responses` dialect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from openai.types.responses import Response

from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import Running, gateway

TOOL: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}
PATCH: Any = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Change files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: PATCH"},
}
ASKED: Any = {"model": "scripted", "max_output_tokens": 200, "input": "Hello?", "tools": [TOOL, PATCH]}

SERVERS = [
    ("vllm", "0.33.0", None),
    ("vllm", "0.11.0", None),
    ("sglang", "0.5.23", None),
    ("sglang", "0.5.17", None),
    ("sglang", "0.5.9", "agentcore"),
    ("sglang", "0.5.11", "llm360"),
    ("dynamo", "1.6.1", "vllm"),
    ("dynamo", "1.6.1", "sglang"),
    ("openai", None, None),
]

ENDS = {"response.completed", "response.incomplete", "response.failed"}


@asynccontextmanager
async def served(tmp_path: Path, server: ScriptedServer, **settings: Any) -> AsyncIterator[tuple[AsyncOpenAI, Running]]:
    """An SDK's client of session `s1`, behind a gateway that has learnt what its backend can."""
    async with running(server) as backend, gateway(tmp_path, backend, **settings) as through:
        await through.agent.post(f"/api/admin/backends/{backend.removeprefix('http://')}/probe")
        async with client_of(through) as client:
            yield client, through


def client_of(through: Running, session: str | None = "s1") -> AsyncOpenAI:
    base = f"{through.url}/sessions/{session}/v1" if session else f"{through.url}/v1"
    return AsyncOpenAI(base_url=base, api_key="none", max_retries=0)


async def streamed(client: AsyncOpenAI, **asked: Any) -> tuple[Response, list[Any]]:
    """The response that a stream's helper of the SDK tells at its end, and its events."""
    async with client.responses.stream(**asked) as stream:
        events = [event async for event in stream]
    assert events[-1].type in ENDS
    return events[-1].response, events
