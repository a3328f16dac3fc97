"""Servers that give text alone, end to end: ids and counts by the model's tokenizer, said to be so; else none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.schema import Usage
from adapters.scripts.replies import fixed
from adapters.scripts.speech import Called, Speech, say
from gateway.app import opened
from gateway.health import Notice
from gateway.scripted import ScriptedServer, running
from gateway.settings import load
from gateway.text_encoder import TokenizerUnavailable
from tests.gateway.harness import events, gateway, traces_in
from tests.gateway.tiny_tokenizer import build

TOOL: dict[str, Any] = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
CALL = say(calls=[Called("get_weather", '{"city": "Paris"}')])


def text_only(speech: Speech) -> ScriptedServer:
    return ScriptedServer("openai", variant="text", reply=fixed(speech))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_text_gets_the_ids_of_the_models_tokenizer_and_says_so(tmp_path: Path, stream: bool) -> None:
    tokenizer = build(tmp_path / "tokenizer")
    async with (
        running(text_only(say("Hello!"))) as backend,
        gateway(tmp_path, f"{backend},engine=openai,tokenizer={tokenizer}") as at,
    ):
        answer = await at.chat(stream=stream)
    assert answer.status_code == 200
    [trace] = await traces_in(at.database)
    assert (trace.status, trace.fidelity, trace.logprobs_fidelity) == ("ok", "retokenized", "none")
    assert trace.prompt_token_ids is not None
    assert trace.choices[0].token_ids is not None
    assert len(trace.choices[0].token_ids) == len("Hello!") + 1  # And the end of the turn.
    assert trace.usage == Usage(len(trace.prompt_token_ids), 7, len(trace.prompt_token_ids) + 7)
    assert trace.usage_estimated


@pytest.mark.parametrize("speech", [say("Hello!"), CALL], ids=["text", "tool call"])
async def test_a_stream_without_usage_gets_it_on_its_last_chunk(tmp_path: Path, speech: Speech) -> None:
    tokenizer = build(tmp_path / "tokenizer")
    async with (
        running(text_only(speech)) as backend,
        gateway(tmp_path, f"{backend},engine=openai,tokenizer={tokenizer}") as at,
    ):
        _, asked = await at.stream(stream_options={"include_usage": True}, tools=[TOOL])
        _, unasked = await at.stream(tools=[TOOL])
    *chunks, last, done = events(asked)
    assert done == b"[DONE]"
    trace, _ = await traces_in(at.database)
    assert trace.usage is not None
    assert trace.usage_estimated
    told = json.loads(last)
    assert told["choices"] == []
    assert told["usage"] == {
        "prompt_tokens": trace.usage.prompt_tokens,
        "completion_tokens": trace.usage.completion_tokens,
        "total_tokens": trace.usage.total_tokens,
    }
    assert told["object"] == "chat.completion.chunk"
    assert not any(json.loads(chunk).get("usage") for chunk in chunks)
    assert b"usage" not in unasked


async def test_without_a_tokenizer_there_are_no_ids_and_no_made_up_counts(tmp_path: Path) -> None:
    async with running(text_only(say("Hello!"))) as backend, gateway(tmp_path, backend) as at:
        answer = await at.chat()
    assert "usage" not in answer.json()
    [trace] = await traces_in(at.database)
    assert (trace.status, trace.fidelity, trace.usage) == ("ok", "none", None)
    assert trace.choices[0].token_ids is None
    assert trace.choices[0].text == "Hello!"


async def test_an_engine_that_tells_ids_is_never_retokenized(tmp_path: Path) -> None:
    tokenizer = build(tmp_path / "tokenizer")
    async with (
        running(ScriptedServer("vllm", reply=fixed(say("Hello!")))) as backend,
        gateway(tmp_path, f"{backend},tokenizer={tokenizer}") as at,
    ):
        await at.chat()
    [trace] = await traces_in(at.database)
    assert (trace.fidelity, trace.usage_estimated) == ("exact", False)


async def test_a_gateway_does_not_start_with_a_tokenizer_that_is_not_there(tmp_path: Path) -> None:
    flags = {
        "database": f"sqlite:///{tmp_path / 'rollouts.db'}",
        "backends": [f"http://127.0.0.1:9,tokenizer={tmp_path / 'nowhere'}"],
    }
    with pytest.raises(TokenizerUnavailable, match="is no folder of this machine"):
        async with opened(load(environ={}, flags=flags), {}, Notice(), None):
            pass
