"""What an agent asks for reaches its engine, field by field; and what it counts comes back at a stream's end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from adapters.scripts.replies import fixed
from adapters.scripts.speech import Called, say
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import CHAT, events, gateway, traces_in
from tests.gateway.test_facade import TOOL, pair

# Engine, version, variant. Dynamo refuses fields that it doesn't know, so it is sent those that it does.
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
    ("openai", None, "unasked"),
]

FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}, "strict": True}}
# In each dialect: what the agent sends, and what of it the engine gets. Numbers are kept to their last digit.
PINS: dict[str, Any] = {"seed": 7, "logit_bias": {"50256": -100}, "presence_penalty": 0.50, "min_p": 1e-05}
ASKED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    CHAT: (
        {"messages": [{"role": "user", "content": "Hi"}], "n": 2, "logprobs": True, "top_logprobs": 3, **PINS}
        | {"response_format": FORMAT, "stop": ["END"], "user": "u", "reasoning_effort": "low"},
        {"n": 2, "logprobs": True, "top_logprobs": 3, **PINS, "response_format": FORMAT, "stop": ["END"], "user": "u"}
        | {"reasoning_effort": "low"},
    ),
    "/v1/completions": (
        {"prompt": "Hi", "n": 2, "logprobs": 3, **PINS, "suffix": "x", "best_of": 2, "user": "u"},
        {"prompt": "Hi", "n": 2, "logprobs": 3, **PINS, "suffix": "x", "best_of": 2, "user": "u"},
    ),
    "/v1/messages": (
        {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9, **PINS, "stop_sequences": ["END"]}
        | {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        {"max_tokens": 9, **PINS, "stop": ["END"]},
    ),
    "/v1/responses": (
        {"input": "Hi", "max_output_tokens": 9, "top_logprobs": 3, **PINS}
        | {
            "include": ["message.output_text.logprobs"],
            "text": {"format": FORMAT["json_schema"] | {"type": "json_schema"}},
        },
        {"max_tokens": 9, "logprobs": True, "top_logprobs": 3, **PINS, "response_format": FORMAT},
    ),
}
OWN = {"return_hidden_states": False, "guided": {"a": [1, 2.0]}, "rid": "r-1"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("engine", "version", "variant"), SERVERS)
async def test_every_field_that_an_agent_sends_reaches_its_engine_in_each_dialect(
    tmp_path: Path, engine: str, version: str | None, variant: str | None, stream: bool
) -> None:
    server = ScriptedServer(engine, version=version, variant=variant)
    own: dict[str, Any] = {} if engine == "dynamo" else OWN
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        await served.agent.post(f"/api/admin/backends/{backend.removeprefix('http://')}/probe")
        for path, (given, gets) in ASKED.items():
            response = await served.agent.post(path, json={"model": "scripted", "stream": stream, **given, **own})
            assert response.status_code == 200, (path, response.text)
            body = server.calls[-1].json
            assert {name: body.get(name) for name in {**gets, **own}} == {**gets, **own}, path
            assert b'"min_p":1e-05' in server.calls[-1].body.replace(b" ", b""), path


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("engine", "version", "variant"), SERVERS)
async def test_each_of_n_answers_is_the_agents_own_with_and_without_the_gateway(
    tmp_path: Path, engine: str, version: str | None, variant: str | None, stream: bool
) -> None:
    """docs/promises.md A9: streamed, they come in turns."""
    said = [
        say("One of three. ☂"),
        say("Let me look.", calls=[Called("get_weather", '{"city": "Paris"}')]),
        say("Three.", reasoning="Two and one."),
    ]
    server = ScriptedServer(engine, version=version, variant=variant, reply=fixed(*said))
    asked: dict[str, Any] = {
        "model": "scripted",
        "messages": [{"role": "user", "content": "Hello?"}],
        "tools": [TOOL],
        "n": 3,
        "logprobs": True,
    }
    async with pair(tmp_path, server) as clients:
        through = await _made(clients.through, stream=stream, **asked)
        direct = {"whole": await _made(clients.direct, stream=False, **asked)}
        direct["streamed"] = await _made(clients.direct, stream=True, **asked)
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    # What is buffered tells more than the server's own stream: all that its whole answer has.
    assert through == direct["streamed" if trace.plan == "streamed" else "whole"]
    assert [told["content"] for told in through.values()] == [speech.text("content") for speech in said]
    for choice, speech in zip(trace.choices, said, strict=True):
        assert choice.token_ids is None or tuple(choice.token_ids) == speech.ids
    assert trace.fidelity == "exact" or trace.fidelity_reason


async def _made(client: AsyncOpenAI, *, stream: bool, **asked: Any) -> dict[int, dict[str, Any]]:
    """What was said in each choice, whole or in parts."""
    answer = await client.chat.completions.create(**asked, stream=stream)
    parts = [chunk async for chunk in answer] if stream else [answer]
    made: dict[int, dict[str, Any]] = {}
    for choice in (choice for part in parts for choice in part.model_dump(warnings=False)["choices"]):
        told = made.setdefault(choice["index"], {"content": "", "calls": "", "finish": None, "logprobs": []})
        delta = choice.get("delta") or choice.get("message") or {}
        told["content"] += delta.get("content") or ""
        for call in delta.get("tool_calls") or []:
            told["calls"] += (call["function"].get("name") or "") + (call["function"].get("arguments") or "")
        told["finish"] = choice["finish_reason"] or told["finish"]
        told["logprobs"] += [entry["logprob"] for entry in (choice.get("logprobs") or {}).get("content") or []]
    return dict(sorted(made.items()))


SPEECHES = {
    "text": say("Hello!"),
    "reasoning": say("Four.", reasoning="Two and two."),
    "tool": say(calls=[Called("get_weather", '{"city": "Paris"}')]),
    "length": say("One two three", end=None),
}


@pytest.mark.parametrize("capture", ["exact", "ids", "stream"])
@pytest.mark.parametrize(("engine", "version", "variant"), SERVERS)
async def test_a_stream_has_its_usage_once_at_its_end_if_asked_and_else_not_at_all(
    tmp_path: Path, engine: str, version: str | None, variant: str | None, capture: str
) -> None:
    """Under every plan, tool calls included. A stream of Messages or Responses always has it."""
    server = ScriptedServer(engine, version=version, variant=variant)
    async with running(server) as backend, gateway(tmp_path, backend, capture=capture) as served:
        await served.agent.post(f"/api/admin/backends/{backend.removeprefix('http://')}/probe")
        for name, speech in SPEECHES.items():
            server.reply = fixed(speech)
            count = len(speech.tokens)
            hello = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
            asked = {**hello, "tools": [TOOL], "stream_options": {"include_usage": True}}
            *chunks, last, done = events((await served.agent.post(CHAT, json=asked)).content)
            assert done == b"[DONE]"
            told = json.loads(last)
            assert told["usage"]["completion_tokens"] == count, name
            # One server has it beside its last words, asked or not.
            assert told["choices"] == [] or variant == "unasked", name
            assert not any(json.loads(chunk).get("usage") for chunk in chunks), name

            unasked = events((await served.agent.post(CHAT, json={**asked, "stream_options": None})).content)
            assert not any(json.loads(chunk).get("usage") for chunk in unasked[:-1]), name

            message = await served.agent.post("/v1/messages", json={**hello, "max_tokens": 99})
            delta = [json.loads(part.partition(b"data: ")[2]) for part in message.content.split(b"\n\n") if part][-2]
            assert (delta["type"], delta["usage"]["output_tokens"]) == ("message_delta", count), name

            response = await served.agent.post(
                "/v1/responses", json={"model": "scripted", "input": "Hi", "stream": True}
            )
            ended = json.loads(response.content.rstrip().rpartition(b"data: ")[2])
            assert ended["response"]["usage"]["output_tokens"] == count, name
