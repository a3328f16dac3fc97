"""What is read of recorded requests: messages in all the forms that agents send them in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.schema import RecordedRequest
from storage.samples.drift.history import Called, History, Message, Reader
from tests.storage.samples.drift.conversations import chat, request_of, user


def read_bytes(body: bytes) -> History | None:
    return Reader(request_of).read(chat(0, [user("")], request=RecordedRequest(body)))


def read(body: object) -> History | None:
    return read_bytes(json.dumps(body).encode())


def message(**fields: Any) -> Message:
    history = read({"messages": [fields]})
    assert history is not None
    assert history.messages is not None
    return history.messages[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "Hello.", "reasoning_content": "Hm."},
        {"content": "Hello.", "reasoning": "Hm."},
        {"content": "<think>Hm.</think>Hello."},
        {"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Hel"}, {"text": "lo."}]},
    ],
)
def test_a_thought_is_found_wherever_an_agent_puts_it(fields: dict[str, Any]) -> None:
    assert message(role="assistant", **fields) == Message("assistant", "Hello.", "Hm.")


def test_calls_keep_their_arguments_as_they_were_written() -> None:
    as_text = {"type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}
    as_object = {"type": "function", "function": {"name": "look", "arguments": {"a": 1}}}
    told = message(role="assistant", content=None, tool_calls=[as_text, as_object])
    assert told == Message("assistant", calls=(Called("look", '{"a":1}'), Called("look", '{"a":1}')))
    legacy = message(role="assistant", content=None, function_call={"name": "look", "arguments": "{}"})
    assert legacy.calls == (Called("look", "{}"),)


def test_another_picture_is_another_message() -> None:
    one, other = (
        message(role="user", content=[{"type": "image_url", "image_url": {"url": url}}]) for url in ("a.png", "b.png")
    )
    assert one != other
    assert one.text.startswith("[image_url ")


def test_a_mark_for_a_cache_makes_no_message_another() -> None:
    picture = {"type": "image_url", "image_url": {"url": "a.png"}}
    marked = {**picture, "cache_control": {"type": "ephemeral"}}
    assert message(role="user", content=[picture]) == message(role="user", content=[marked])


def test_a_completion_has_its_prompt_and_no_messages() -> None:
    assert read({"prompt": "Once"}) == History(prompt="Once")
    assert read({"prompt": [1, 2]}) == History()


def test_what_else_is_rendered_is_kept_and_what_is_not_is_not() -> None:
    history = read({"messages": [], "tools": [], "temperature": 1})
    assert history == History((), settings={"tools": b"[]"})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"messages": 1}',
        b'{"messages": [1]}',
        b'{"messages": [null]}',
        b'{"messages": "text"}',
        b'{"messages": [{"role": "user", "content": 1e999}]}',
        b'{"messages": [{"role": "user", "content": ' + b"[" * 9_000 + b"]" * 9_000 + b"}]}",
    ],
)
def test_what_is_no_request_has_no_history(body: bytes) -> None:
    assert read_bytes(body) is None


@pytest.mark.parametrize(
    "odd",
    [
        {"role": 1, "content": 2},
        {"content": [1, None, {"type": "text"}]},
        {"tool_calls": 1},
        {"tool_calls": [1, {}, {"function": None}, {"function": {"name": 3}}]},
        {"function_call": "x"},
        {"reasoning": ["x"]},
        {},
    ],
)
def test_odd_messages_are_read_as_far_as_they_can_be(odd: dict[str, Any]) -> None:
    assert isinstance(message(**odd), Message)
