"""Whatever an agent sends, in any dialect: an answer, or that dialect's own error with a sentence that helps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.scripted import ScriptedServer, running
from tests.gateway.dialect_calls import ASKED, error_of
from tests.gateway.harness import Running, gateway

DEEP = 10_000
PICTURE = "data:image/png;base64," + "A" * (20 << 20)
_ANTHROPICS = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * (20 << 20)}}

# Where each dialect has its turns, and what a tool and a picture are in it. Legacy completions know neither.
TURNS = {
    "/v1/chat/completions": "messages",
    "/v1/completions": "prompt",
    "/v1/messages": "messages",
    "/v1/responses": "input",
    "/v1/messages/count_tokens": "messages",
}
TOOLS: dict[str, Any] = {
    "/v1/chat/completions": {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
    "/v1/messages": {"name": "f", "input_schema": {"type": "object"}},
    "/v1/responses": {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False},
    "/v1/messages/count_tokens": {"name": "f", "input_schema": {"type": "object"}},
}
PICTURES: dict[str, Any] = {
    "/v1/chat/completions": {"type": "image_url", "image_url": {"url": PICTURE}},
    "/v1/messages": _ANTHROPICS,
    "/v1/responses": {"type": "input_image", "image_url": PICTURE},
    "/v1/messages/count_tokens": _ANTHROPICS,
}


def _with(path: str, **fields: Any) -> bytes:
    return json.dumps({**ASKED[path], **fields}).encode()


def _ending(path: str, name: str, value: bytes) -> bytes:
    """The call with one more field, as raw JSON."""
    return _with(path)[:-1] + b',"' + name.encode() + b'":' + value + b"}"


def _refused(path: str) -> dict[str, bytes]:
    turns = TURNS[path]
    lists, objects = b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP
    bad = {
        "nothing": b"",
        "white space": b" \n",
        "a list": b"[]",
        "a number": b"1",
        "half an object": _with(path)[:-2],
        "no UTF-8": _ending(path, "model", b'"\xff"'),
        "UTF-16": _with(path).decode().encode("utf-16"),
        "an empty object": b"{}",
        "turns that are an object": _with(path, **{turns: {"a": 1}}),
        "turns in a list of lists": _with(path, **{turns: [[[]]]}),
        "a stream that is text": _with(path, stream="yes"),
        "a model that is a list": _with(path, model=["scripted"]),
        "lists in lists in lists": _ending(path, turns, lists),
        "lists where nobody looks": _ending(path, "unknown", lists),
        "objects where nobody looks": _ending(path, "unknown", objects),
        **{f"no {name}": _without(path, name) for name in ASKED[path] if name != "model"},
    }
    if turns == "prompt":
        return bad
    bad["content that is a number"] = _with(path, **{turns: [{"role": "user", "content": 7}]})
    bad["tools that are text"] = _with(path, tools="f")
    # Messages and tools of a chat go to the engine as they came: which there are is its own to say.
    if path != "/v1/chat/completions":
        bad["a tool that is a number"] = _with(path, tools=[7])
        bad["an unknown role"] = _with(path, **{turns: [{"role": "wizard", "content": "x"}]})
        bad["a role that is a number"] = _with(path, **{turns: [{"role": 7, "content": "x"}]})
    return bad


def _without(path: str, name: str) -> bytes:
    return json.dumps({key: value for key, value in ASKED[path].items() if key != name}).encode()


@pytest.mark.parametrize("path", ASKED)
async def test_bad_input_gets_the_dialects_own_4xx_with_a_sentence(tmp_path: Path, path: str) -> None:
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend) as served:
        for name, body in _refused(path).items():
            response = await served.agent.post(path, content=body)
            assert response.status_code in (400, 404, 422), (name, response.status_code, response.text[:300])
            kind, sentence = error_of(path, response.json())
            assert kind, name
            assert len(sentence.split()) > 2, (name, sentence)


def _named(tool: dict[str, Any], name: str) -> dict[str, Any]:
    return {**tool, "function": {**tool["function"], "name": name}} if "function" in tool else {**tool, "name": name}


@pytest.mark.parametrize("path", TOOLS)
async def test_what_is_large_and_in_order_is_no_bad_input(tmp_path: Path, path: str) -> None:
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend) as served:
        tools = _with(path, tools=[_named(TOOLS[path], f"f{number}") for number in range(10_000)])
        picture = _with(path, **{TURNS[path]: [{"role": "user", "content": [PICTURES[path]]}]})
        for body in (tools, picture):
            response = await served.agent.post(path, content=body)
            assert response.status_code == 200, response.text[:300]


NAMES = """
model messages input prompt stream tools tool_choice system instructions role content type text name n logprobs
function arguments tool_calls tool_use_id call_id output max_tokens stop thinking image_url source id
"""
names = st.sampled_from(NAMES.split())
words = st.sampled_from(
    ["user", "assistant", "tool", "system", "text", "tool_use", "function_call", "function", "", "é"]
)
leaves = st.none() | st.booleans() | st.integers(-2, 9) | st.floats(allow_nan=False, allow_infinity=False) | words
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
# Of each body some fields are right, so that the others are looked at.
bodies = st.lists(st.tuples(st.booleans(), st.dictionaries(names, values, max_size=5)), min_size=15, max_size=15)


@pytest.mark.parametrize("path", ASKED)
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(given_bodies=bodies)
def test_no_json_object_is_answered_with_a_500(path: str, given_bodies: Sequence[tuple[bool, dict[str, Any]]]) -> None:
    asyncio.run(_none_fails(path, [{**ASKED[path], **fields} if whole else fields for whole, fields in given_bodies]))


async def _none_fails(path: str, asked: Sequence[dict[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        async with running(ScriptedServer("vllm")) as backend, gateway(Path(folder), backend) as served:
            for body in asked:
                await _never_a_500(served, path, body)


async def _never_a_500(served: Running, path: str, body: dict[str, Any]) -> None:
    response = await served.agent.post(path, json=body)
    assert response.status_code < 500, (body, response.text)
    if response.status_code >= 400:
        assert error_of(path, response.json())[1], body
