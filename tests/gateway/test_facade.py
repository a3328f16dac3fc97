"""A plain client sees through the gateway what it sees without it, in the OpenAI SDK's own parsed objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from adapters.scripts.replies import fixed
from adapters.scripts.speech import Called, say
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import Running, gateway, traces_in

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}

# Engine, version, variant; and whether a stream that is asked for is streamed in `exact`.
SERVERS = [
    ("vllm", "0.33.0", None, True),
    ("vllm", "0.20.2", None, True),
    ("vllm", "0.11.0", None, True),
    ("sglang", "0.5.23", None, False),
    ("sglang", "0.5.18", None, False),
    ("sglang", "0.5.17", None, False),
    ("sglang", "0.5.14", None, False),
    ("sglang", "0.5.9", "agentcore", False),
    ("sglang", "0.5.11", "llm360", False),
    ("dynamo", "1.6.1", "vllm", True),
    ("dynamo", "1.6.1", "sglang", True),
]

SPEECHES = {
    "text": say("Hello! It is 18 °C. ☂ 👋"),
    "reasoning": say("Four.", reasoning="Two and two."),
    "tool": say(calls=[Called("get_weather", '{"city": "Paris"}')]),
    "parallel tools": say(
        "Let me look.",
        calls=[Called("get_weather", '{"city": "Paris"}'), Called("get_weather", '{"city": "Tokyo"}')],
    ),
}

# What of an answer is different each time; and the ids that a patched server gives without being asked for them.
_LEFT_OUT = {"id", "created", "system_fingerprint", "prompt_token_ids", "token_ids"}


@dataclass(frozen=True, slots=True)
class Pair:
    """The same server, asked directly and through a gateway."""

    server: ScriptedServer
    direct: AsyncOpenAI
    through: AsyncOpenAI
    gateway: Running


@asynccontextmanager
async def pair(tmp_path: Path, server: ScriptedServer) -> AsyncIterator[Pair]:
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        await served.agent.post(f"/api/admin/backends/{backend.removeprefix('http://')}/probe")
        async with (
            AsyncOpenAI(base_url=f"{backend}/v1", api_key="none", max_retries=0) as direct,
            AsyncOpenAI(base_url=f"{served.url}/sessions/s1/v1", api_key="none", max_retries=0) as through,
        ):
            yield Pair(server, direct, through, served)


def _bare(value: Any) -> Any:
    """Without stamps and null members."""
    if isinstance(value, list):
        return [_bare(item) for item in value]
    if isinstance(value, dict):
        return {k: _bare(v) for k, v in value.items() if v not in (None, []) and k not in _LEFT_OUT}
    return value


def _telling(chunks: list[ChatCompletionChunk]) -> list[Any]:
    """The chunks that tell a client anything: a server may send others, for tokens whose text is not whole yet."""
    bare = [_bare(chunk.model_dump(warnings=False)) for chunk in chunks]
    return [c for c in bare if "usage" in c or any(c.get("finish_reason") or c["delta"] for c in c["choices"])]


def _folded(chunks: list[ChatCompletionChunk]) -> dict[str, Any]:
    """What a client makes of a stream: of each choice what was said and how it ended; and the usage."""
    state = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(chunk)
    return _said(state.get_final_completion())


def _said(answer: ChatCompletion) -> dict[str, Any]:
    return {
        "choices": [
            {
                "content": choice.message.content or "",
                "reasoning": _reasoning(choice.message),
                "calls": [
                    (call.function.name, call.function.arguments)
                    for call in choice.message.tool_calls or []
                    if call.type == "function"
                ],
                "finish_reason": choice.finish_reason,
                "logprobs": [entry.logprob for entry in choice.logprobs.content or []] if choice.logprobs else None,
            }
            for choice in answer.choices
        ],
        "usage": answer.usage and (answer.usage.prompt_tokens, answer.usage.completion_tokens),
    }


def _reasoning(message: Any) -> str:
    return getattr(message, "reasoning", None) or getattr(message, "reasoning_content", None) or ""


@pytest.mark.parametrize("said", SPEECHES)
@pytest.mark.parametrize(("engine", "version", "variant", "streams"), SERVERS)
async def test_text_reasoning_and_tools_are_the_same_with_and_without_the_gateway(
    tmp_path: Path, engine: str, version: str, variant: str | None, streams: bool, said: str
) -> None:
    server = ScriptedServer(engine, version=version, variant=variant, reply=fixed(SPEECHES[said]))
    asked: dict[str, Any] = {
        "model": "scripted",
        "messages": [{"role": "user", "content": "Hello?"}],
        "tools": [TOOL],
        "max_tokens": 200,
    }
    async with pair(tmp_path, server) as clients:
        whole = [await client.chat.completions.create(**asked) for client in (clients.direct, clients.through)]
        assert _bare(whole[1].model_dump(warnings=False)) == _bare(whole[0].model_dump(warnings=False))

        chunks = []
        for client in (clients.direct, clients.through):
            stream = await client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
            chunks.append([chunk async for chunk in stream])
        plan = (await _traces(clients))[-1]["plan"]
        if plan == "streamed":
            assert _telling(chunks[1]) == _telling(chunks[0])
        else:
            assert _folded(chunks[1]) == _said(whole[0])

        bare = await clients.through.chat.completions.create(**asked, stream=True)
        assert all(chunk.usage is None and chunk.choices for chunk in [chunk async for chunk in bare])
    assert plan == ("streamed" if streams and version != "0.11.0" else "buffered")
    traces = await traces_in(tmp_path / "rollouts.db")
    assert [trace.fidelity for trace in traces] == ["exact"] * 3
    for trace in traces:
        assert tuple(trace.choices[0].token_ids or ()) == SPEECHES[said].ids


async def _traces(clients: Pair) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await clients.gateway.agent.get("/api/sessions/s1/traces")).json()["items"]
    return items


@pytest.mark.parametrize(("engine", "version", "variant", "streams"), SERVERS)
async def test_a_client_that_asks_for_logprobs_gets_its_own_and_no_more(
    tmp_path: Path, engine: str, version: str, variant: str | None, streams: bool
) -> None:
    """docs/promises.md F17 beside it: one that says false has them recorded all the same."""
    server = ScriptedServer(engine, version=version, variant=variant, reply=fixed(SPEECHES["text"]))
    asked: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "Hello?"}]}
    async with pair(tmp_path, server) as clients:
        for more in (
            {"logprobs": True},
            {"logprobs": True, "top_logprobs": 2},
            {"logprobs": False},
            {"logprobs": None},
        ):
            whole = [
                await client.chat.completions.create(**asked, **more) for client in (clients.direct, clients.through)
            ]
            assert _bare(whole[1].model_dump(warnings=False)) == _bare(whole[0].model_dump(warnings=False)), more
    traces = await traces_in(tmp_path / "rollouts.db")
    assert [trace.logprobs_fidelity for trace in traces] == ["exact"] * 4
    assert all(trace.choices[0].logprobs == SPEECHES["text"].logprobs for trace in traces)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("engine", "version", "variant", "streams"), SERVERS)
async def test_return_token_ids_means_vllms_places_from_every_engine(
    tmp_path: Path, engine: str, version: str, variant: str | None, streams: bool, stream: bool
) -> None:
    server = ScriptedServer(engine, version=version, variant=variant, reply=fixed(SPEECHES["text"]))
    async with pair(tmp_path, server) as clients:
        answer = await clients.through.chat.completions.create(
            model="scripted",
            messages=[{"role": "user", "content": "Hello?"}],
            stream=stream,
            extra_body={"return_token_ids": True},
        )
        prompt, ids = [], []
        for part in [chunk async for chunk in answer] if stream else [answer]:
            told = part.model_dump(warnings=False)
            prompt = told.get("prompt_token_ids") or prompt
            ids += [i for choice in told["choices"] for i in choice.get("token_ids") or []]
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert trace.prompt_token_ids is not None
    assert (prompt, ids) == (trace.prompt_token_ids.tolist(), list(SPEECHES["text"].ids))


@pytest.mark.parametrize("capture", ["exact", "ids", "stream"])
@pytest.mark.parametrize(("engine", "version", "variant", "streams"), SERVERS)
async def test_each_capture_gives_up_what_it_says_and_is_honest_about_it(
    tmp_path: Path, engine: str, version: str, variant: str | None, streams: bool, capture: str
) -> None:
    speech = SPEECHES["parallel tools"]
    server = ScriptedServer(engine, version=version, variant=variant, reply=fixed(speech))
    async with pair(tmp_path, server) as clients:
        made = await clients.gateway.agent.post("/api/sessions", json={"capture": capture})
        client = clients.through.with_options(base_url=made.json()["base_url"], api_key=made.json()["key"])
        stream = await client.chat.completions.create(
            model="scripted", messages=[{"role": "user", "content": "Hello?"}], tools=[TOOL], stream=True
        )
        folded = _folded([chunk async for chunk in stream])
    assert folded["choices"][0]["calls"] == [(call.name, call.arguments) for call in speech.calls]
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    ids = tuple(trace.choices[0].token_ids or ())
    if capture == "stream":
        assert trace.plan == "streamed"
    else:
        assert (trace.fidelity, ids) == ("exact", speech.ids)
    if capture == "exact":
        assert trace.logprobs_fidelity == "exact"
    assert (trace.fidelity == "exact") == (ids == speech.ids)
    assert trace.fidelity == "exact" or trace.fidelity_reason
    assert trace.logprobs_fidelity == "exact" or trace.logprobs_reason
    if trace.choices[0].logprobs is not None and ids == speech.ids:
        assert trace.choices[0].logprobs == speech.logprobs
