"""What recorded requests of each dialect came to: one conversation, said in four ways, is one history."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from adapters.schema import Choice, Dialect, RecordedRequest, ToolCall, Trace
from gateway.dialects.recorded import requests_of
from storage.samples.drift.history import Called, History, Message, Reader

ANSWER = Choice(0, text="I look.", reasoning="Hm.", tool_calls=(ToolCall("c1", "look", '{"a": 1}'),))
FIRST = Trace(
    "0190d5a0-0000-7000-8000-000000000001",
    "s",
    "responses",
    "ok",
    started_at=datetime(2026, 11, 20, tzinfo=UTC),
    request=RecordedRequest(b'{"model": "m", "input": "Is it raining?"}'),
    choices=(ANSWER,),
)
RESPONSE = "resp_0190d5a0000070008000000000000001"
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
WHOLE = (
    Message("system", "Be brief."),
    Message("user", "Is it raining?"),
    Message("assistant", "I look.", "Hm.", (Called("look", '{"a": 1}'),)),
    Message("tool", "rain"),
)

SAID: dict[str, tuple[Dialect, dict[str, Any]]] = {
    "chat": (
        "chat",
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Is it raining?"},
                {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "rain"},
            ]
        },
    ),
    "messages": (
        "messages",
        {
            "max_tokens": 9,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": "Is it raining?"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}},
                    ],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "rain"}]},
            ],
        },
    ),
    "responses by items": (
        "responses",
        {
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Is it raining?"}]},
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a": 1}'},
                {"type": "function_call_output", "call_id": "c1", "output": "rain"},
            ],
        },
    ),
    "responses by what came before": (
        "responses",
        {
            "instructions": "Be brief.",
            "previous_response_id": RESPONSE,
            "input": [{"type": "function_call_output", "call_id": "c1", "output": "rain"}],
        },
    ),
    "responses by reference": (
        "responses",
        {
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": "Is it raining?"},
                {"type": "item_reference", "id": f"rs_{RESPONSE[5:]}_0"},
                {"type": "item_reference", "id": f"msg_{RESPONSE[5:]}_0"},
                {"type": "item_reference", "id": f"fc_{RESPONSE[5:]}_0"},
                {"type": "function_call_output", "call_id": "c1", "output": "rain"},
            ],
        },
    ),
}


def history(dialect: Dialect, body: bytes, *session: Trace) -> History | None:
    trace = replace(FIRST, trace_id="later", dialect=dialect, request=RecordedRequest(body))
    return Reader(requests_of([*session, trace])).read(trace)


@pytest.mark.parametrize("way", SAID)
def test_one_conversation_is_the_same_in_whatever_dialect_it_was_sent(way: str) -> None:
    dialect, asked = SAID[way]
    told = history(dialect, json.dumps({"model": "m", **asked}).encode(), FIRST)
    assert told is not None
    assert told.messages is not None
    # A call that came as an object has its arguments on one line, as the request spelled them.
    assert told.messages == WHOLE


def test_a_completion_has_a_prompt_and_no_messages() -> None:
    assert history("completions", b'{"prompt": "Once"}') == History(prompt="Once")
    assert history("completions", b'{"prompt": [1, 2]}') == History()


def test_the_tools_of_every_dialect_are_what_a_prompt_is_rendered_with() -> None:
    one = history("messages", b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Hi"}],"tools":'
                  b'[{"name":"look","input_schema":{"type":"object"}}]}')  # fmt: skip
    other = history("responses", b'{"model":"m","input":"Hi","tools":'
                    b'[{"type":"function","name":"look","parameters":{"type":"object"}}]}')  # fmt: skip
    assert one is not None
    assert other is not None
    assert json.loads(one.settings["tools"]) == json.loads(other.settings["tools"])


@pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])
@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"messages": 1, "input": 1}', b'{"model": "m"}'])
def test_what_was_refused_has_no_history(dialect: Dialect, body: bytes) -> None:
    assert history(dialect, body) is None


def test_what_came_before_may_be_gone() -> None:
    asked = {"model": "m", "previous_response_id": RESPONSE, "input": "And?"}
    assert history("responses", json.dumps(asked).encode()) is None
