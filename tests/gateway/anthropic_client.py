"""Anthropic's SDK as a client of a gateway, for tests of the `messages` dialect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from anthropic import AsyncAnthropic
from anthropic.types import Message

from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import Running, gateway

TOOL: Any = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ASKED: Any = {
    "model": "scripted",
    "max_tokens": 200,
    "messages": [{"role": "user", "content": "Hello?"}],
    "tools": [TOOL],
    "stop_sequences": ["END"],
}

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


@asynccontextmanager
async def served(
    tmp_path: Path, server: ScriptedServer, **settings: Any
) -> AsyncIterator[tuple[AsyncAnthropic, Running]]:
    """An SDK's client of session `s1`, behind a gateway that has learnt what its backend can."""
    async with running(server) as backend, gateway(tmp_path, backend, **settings) as through:
        await through.agent.post(f"/api/admin/backends/{backend.removeprefix('http://')}/probe")
        client = AsyncAnthropic(base_url=f"{through.url}/sessions/s1", api_key="none", max_retries=0)
        async with client:
            yield client, through


async def streamed(client: AsyncAnthropic, **asked: Any) -> tuple[Message, list[Any]]:
    """What the SDK makes of a stream, and its raw events."""
    async with client.messages.stream(**asked) as stream:
        events = [event async for event in stream if event.type in RAW]
        return await stream.get_final_message(), events


RAW = {
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
}
