"""Anthropic's SDK gets through the gateway what Anthropic's API would have sent, whatever engine answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import Message

from adapters.schema import Trace
from adapters.scripts.replies import Reply, by_turn, fixed
from adapters.scripts.script import Stamp
from adapters.scripts.speech import Called, say
from gateway.dialects import thought
from gateway.scripted import Fault, ScriptedServer
from tests.gateway.anthropic_client import ASKED, SERVERS, served, streamed
from tests.gateway.harness import traces_in

PARIS, TOKYO = {"city": "Paris"}, {"city": "Tokyo"}

SPEECHES = {
    "text": say("Hello! It is 18 °C. ☂ 👋"),
    "reasoning": say("Four.", reasoning="Two and two."),
    "tool": say(calls=[Called("get_weather", '{"city": "Paris"}')]),
    "parallel tools": say(
        "Let me look.",
        calls=[Called("get_weather", '{"city": "Paris"}'), Called("get_weather", '{"city": "Tokyo"}')],
    ),
    "all": say("Let me look.", reasoning="Where?", calls=[Called("get_weather", '{"city":"Paris"}')]),
    "refusal": replace(say("I can't."), finish="content_filter"),
    "length": say("One two three", end=None),
    "stop sequence": say("One END two"),
    "nothing": say(),
}


def _thinking(words: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": thought.sign(words, shown=True)}


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _weather(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": "…", "name": "get_weather", "input": of}


# What Anthropic's API says of each of these answers: content, stop reason, stop sequence.
MEANT: dict[str, tuple[list[dict[str, Any]], str, str | None]] = {
    "text": ([_text("Hello! It is 18 °C. ☂ 👋")], "end_turn", None),
    "reasoning": ([_thinking("Two and two."), _text("Four.")], "end_turn", None),
    "tool": ([_weather(PARIS)], "tool_use", None),
    "parallel tools": ([_text("Let me look."), _weather(PARIS), _weather(TOKYO)], "tool_use", None),
    "all": ([_thinking("Where?"), _text("Let me look."), _weather(PARIS)], "tool_use", None),
    "refusal": ([_text("I can't.")], "refusal", None),
    "length": ([_text("One two three")], "max_tokens", None),
    "stop sequence": ([_text("One ")], "stop_sequence", "END"),
    "nothing": ([], "end_turn", None),
}


def _said(message: Message) -> dict[str, Any]:
    """Without what is different each time."""
    told = message.model_dump(exclude_none=True, warnings=False)
    assert told.pop("id").startswith("msg_")
    for block in told["content"]:
        if block["type"] == "tool_use":
            assert block["id"]
            block["id"] = "…"
        block.pop("parsed_output", None)
    return told


def _reference(said: str, engine: str, trace: Trace) -> dict[str, Any]:
    content, stop, sequence = MEANT[said]
    if engine == "openai":
        # A server of plain OpenAI answers tells no thoughts.
        content = [block for block in content if block["type"] != "thinking"]
    if engine in ("openai", "dynamo") and stop == "stop_sequence":
        # These do not tell what stopped an answer.
        stop, sequence = "end_turn", None
    assert trace.usage is not None
    usage = {
        "input_tokens": trace.usage.prompt_tokens,
        "output_tokens": trace.usage.completion_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    if trace.usage.reasoning_tokens:
        usage["output_tokens_details"] = {"thinking_tokens": trace.usage.reasoning_tokens}  # type: ignore[assignment]
    reference = {
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": stop,
        "usage": usage,
    }
    if sequence is not None:
        reference["stop_sequence"] = sequence
    if stop == "refusal":
        reference["stop_details"] = {"type": "refusal"}
    return reference


@pytest.mark.parametrize(("engine", "version", "variant"), SERVERS)
async def test_every_answer_is_what_anthropics_would_be(
    tmp_path: Path, engine: str, version: str | None, variant: str | None
) -> None:
    server = ScriptedServer(engine, version=version, variant=variant)
    answers: list[tuple[str, Message]] = []
    async with served(tmp_path, server) as (client, _):
        for said, speech in SPEECHES.items():
            server.reply = fixed(speech)
            answers.append((said, await client.messages.create(**ASKED)))
            folded, events = await streamed(client, **ASKED)
            answers.append((said, folded))
            assert _in_order([event.type for event in events]), said
    traces = await traces_in(tmp_path / "rollouts.db")
    for (said, answer), trace in zip(answers, traces, strict=True):
        assert _said(answer) == _reference(said, engine, trace), said
        assert (trace.dialect, trace.status) == ("messages", "ok")
        if engine != "openai":
            assert trace.fidelity == "exact", said
        if engine != "openai" and said != "stop sequence":
            assert tuple(trace.choices[0].token_ids or ()) == SPEECHES[said].ids


def _in_order(names: Sequence[str]) -> bool:
    """Start, then blocks of which each has its start, deltas and stop, then the delta of the message, and its stop."""
    words = {"content_block_start": "<", "content_block_delta": "-", "content_block_stop": ">"}
    blocks = "".join(words[name] for name in names[1:-2])
    return (names[0], *names[-2:]) == ("message_start", "message_delta", "message_stop") and all(
        block == "" or (block[0] == "<" and set(block[1:]) <= {"-"}) for block in blocks.split(">")
    )


async def test_the_bytes_of_a_stream_are_those_of_anthropics(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", reply=fixed(say("Two two.", reasoning="Two.")))
    async with served(tmp_path, server) as (_, through):
        response = await through.agent.post("/v1/messages?beta=true", json={**ASKED, "tools": [], "stream": True})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = [event.split(b"\n") for event in response.content.removesuffix(b"\n\n").split(b"\n\n")]
    told = [(name.removeprefix(b"event: ").decode(), json.loads(data.removeprefix(b"data: "))) for name, data in events]
    assert all(name == body["type"] for name, body in told)
    start = told[0][1]["message"]
    assert (start["content"], start["stop_reason"], start["role"]) == ([], None, "assistant")
    shown = [(name, body.get("index"), body.get("content_block") or body.get("delta")) for name, body in told[1:]]
    signature = thought.sign("Two.", shown=True)
    assert shown == [
        ("content_block_start", 0, {"type": "thinking", "thinking": "", "signature": ""}),
        ("ping", None, None),
        ("content_block_delta", 0, {"type": "thinking_delta", "thinking": "Two"}),
        ("content_block_delta", 0, {"type": "thinking_delta", "thinking": "."}),
        ("content_block_delta", 0, {"type": "signature_delta", "signature": signature}),
        ("content_block_stop", 0, None),
        ("content_block_start", 1, {"type": "text", "text": ""}),
        *(("content_block_delta", 1, {"type": "text_delta", "text": word}) for word in ("Two", " two", ".")),
        ("content_block_stop", 1, None),
        ("message_delta", None, {"stop_reason": "end_turn", "stop_sequence": None}),
        ("message_stop", None, None),
    ]


ENOUGH_TOOLS = [Called("get_weather", '{"city":"Paris"}'), Called("get_weather", '{"city":"Tokyo"}')]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("engine", "version", "variant"), SERVERS[:-1])
async def test_an_agents_loop_is_one_sequence_of_tokens(
    tmp_path: Path, engine: str, version: str | None, variant: str | None, stream: bool
) -> None:
    """Thoughts, calls and their ids come back as they went out, so each prompt extends the one before it."""
    reply: Reply = by_turn(
        say("Let me look.", reasoning="Where?", calls=ENOUGH_TOOLS),
        say(reasoning="Once more.", calls=ENOUGH_TOOLS[:1]),
        say("It rains.", reasoning="I see."),
    )
    server = ScriptedServer(engine, version=version, variant=variant, reply=reply)
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    async with served(tmp_path, server) as (client, _):
        while True:
            asked = {**ASKED, "messages": messages}
            answer = (await streamed(client, **asked))[0] if stream else await client.messages.create(**asked)
            messages.append({"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in answer.content]})
            if answer.stop_reason != "tool_use":
                break
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": "rain"}
                for block in answer.content
                if block.type == "tool_use"
            ]
            messages.append({"role": "user", "content": results})
    traces = await traces_in(tmp_path / "rollouts.db")
    assert [trace.fidelity for trace in traces] == ["exact"] * 3
    assert [trace.parent_trace_id for trace in traces] == [None, traces[0].trace_id, traces[1].trace_id]
    sent = server.calls[-1].json["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "assistant", "tool"]
    assert [call["id"] for call in sent[1]["tool_calls"]] == [message["tool_call_id"] for message in sent[2:4]]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_thought_that_is_omitted_is_no_gap_in_the_tokens(tmp_path: Path, stream: bool) -> None:
    server = ScriptedServer("vllm", reply=by_turn(say("One.", reasoning="Hm."), say("Two.", reasoning="Well.")))
    messages: list[Any] = [{"role": "user", "content": "Count."}]
    thinking = {"type": "adaptive", "display": "omitted"}
    async with served(tmp_path, server) as (client, _):
        for _ in range(2):
            asked = {**ASKED, "messages": messages, "thinking": thinking}
            answer = (await streamed(client, **asked))[0] if stream else await client.messages.create(**asked)
            block = answer.content[0]
            assert (block.type, getattr(block, "thinking", None)) == ("thinking", "")
            messages += [answer.to_param(), {"role": "user", "content": "And?"}]
    first, second = await traces_in(tmp_path / "rollouts.db")
    assert second.parent_trace_id == first.trace_id
    assert server.calls[-1].json["messages"][1]["reasoning"] == "Hm."


@pytest.mark.parametrize("stream", [False, True])
async def test_who_turns_thinking_off_sees_no_thoughts_and_the_trace_has_them(tmp_path: Path, stream: bool) -> None:
    server = ScriptedServer("vllm", reply=fixed(SPEECHES["reasoning"]))
    async with served(tmp_path, server) as (client, _):
        asked = {**ASKED, "thinking": {"type": "disabled"}}
        answer = (await streamed(client, **asked))[0] if stream else await client.messages.create(**asked)
    assert [block.type for block in answer.content] == ["text"]
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert (trace.fidelity, trace.choices[0].reasoning) == ("exact", "Two and two.")


async def test_what_the_engine_had_cached_is_told_as_anthropic_does(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with served(tmp_path, server) as (client, _):
        plain = await client.messages.create(**ASKED)
        body = server.script.answer(
            server.calls[-1].asked,  # type: ignore[arg-type]
            server.calls[-1].speeches,
            Stamp("1" * 32, 7),
        ).body
        cached = body.replace(b'"prompt_tokens_details":null', b'"prompt_tokens_details":{"cached_tokens":8}')
        assert cached != body
        server.faults.append(Fault(body=cached))
        answer = await client.messages.create(**ASKED)
    assert answer.usage.cache_read_input_tokens == 8
    assert answer.usage.input_tokens == plain.usage.input_tokens - 8


async def test_either_header_may_bring_a_sessions_key(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with served(tmp_path, server, keys=["secret"], admin_key="admin") as (_, through):
        admin = {"x-api-key": "admin"}
        key = (await through.agent.post("/api/sessions", json={"session_id": "mine"}, headers=admin)).json()["key"]
        for given in ({"api_key": key}, {"auth_token": key}):
            async with AsyncAnthropic(base_url=through.url, max_retries=0, **given) as client:
                raw = await client.messages.with_raw_response.create(**ASKED, extra_headers={"anthropic-beta": "x"})
                assert raw.headers["x-session-id"] == "mine"
        async with AsyncAnthropic(base_url=through.url, api_key="wrong", max_retries=0) as client:
            with pytest.raises(anthropic.AuthenticationError) as caught:
                await client.messages.create(**ASKED)
            assert caught.value.type == "authentication_error"


def test_every_speech_has_its_meaning() -> None:
    assert SPEECHES.keys() == MEANT.keys()
