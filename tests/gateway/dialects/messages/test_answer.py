"""What of a completion becomes a message's content, stop reason and counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.answer import Outcome, Piece
from adapters.answer_shape import Delta
from adapters.schema import Choice, Completion, ToolCall, Usage, Verdict
from gateway.dialects import thought
from gateway.dialects.messages.answer import MessagesRequest, MessagesResponder
from gateway.dialects.messages.blocks import ThinkingShown

CALL = ToolCall("c1", "f", '{"a": 1.50}')


def outcome(usage: Usage | None = None, **choice: Any) -> Outcome:
    told = Completion(choices=(Choice(0, **choice),), usage=usage)
    return Outcome(told, Verdict("none", None, "none", None), b"", finished=True)


def responder(thinking: ThinkingShown = "shown") -> MessagesResponder:
    return MessagesResponder(MessagesRequest("chat", {}, "m", thinking=thinking, stop_sequences=("END",)))


def whole(usage: Usage | None = None, thinking: ThinkingShown = "shown", **choice: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(responder(thinking).whole(outcome(usage, **choice)))
    return told


def bodies(stream: bytes) -> list[dict[str, Any]]:
    return [json.loads(event.partition(b"data: ")[2]) for event in stream.removesuffix(b"\n\n").split(b"\n\n")]


@pytest.mark.parametrize(
    ("choice", "reason", "sequence"),
    [
        ({"finish_reason": "stop"}, "end_turn", None),
        ({"finish_reason": "stop", "stop_reason": 151645}, "end_turn", None),
        ({"finish_reason": "stop", "stop_reason": "END"}, "stop_sequence", "END"),
        ({"finish_reason": "stop", "stop_reason": "</s>"}, "end_turn", None),
        ({"finish_reason": "length"}, "max_tokens", None),
        ({"finish_reason": "length", "tool_calls": (CALL,)}, "max_tokens", None),
        ({"finish_reason": "tool_calls", "tool_calls": (CALL,)}, "tool_use", None),
        ({"finish_reason": "stop", "tool_calls": (CALL,)}, "tool_use", None),
        ({"finish_reason": "tool_calls"}, "end_turn", None),
        ({"finish_reason": "content_filter"}, "refusal", None),
        ({"finish_reason": "abort"}, "end_turn", None),
        ({}, "end_turn", None),
    ],
)
def test_why_an_answer_stopped(choice: dict[str, Any], reason: str, sequence: str | None) -> None:
    told = whole(**choice)
    assert (told["stop_reason"], told["stop_sequence"]) == (reason, sequence)
    assert ("stop_details" in told) == (reason == "refusal")
    last = bodies(responder().streamed(outcome(**choice)))[-2]
    assert (last["delta"]["stop_reason"], last["delta"]["stop_sequence"]) == (reason, sequence)


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (Usage(prompt_tokens=10, completion_tokens=3), (10, 0, 3, None)),
        (Usage(prompt_tokens=10, completion_tokens=3, cached_tokens=8, reasoning_tokens=2), (2, 8, 3, 2)),
        (Usage(prompt_tokens=10, completion_tokens=3, cached_tokens=12), (0, 12, 3, None)),
        (None, (0, 0, 0, None)),
    ],
)
def test_what_was_cached_is_counted_apart(usage: Usage | None, counts: tuple[int, ...]) -> None:
    told = whole(usage)["usage"]
    thinking = told.get("output_tokens_details", {}).get("thinking_tokens")
    assert (told["input_tokens"], told["cache_read_input_tokens"], told["output_tokens"], thinking) == counts
    start, *_, last, _ = bodies(responder().streamed(outcome(usage)))
    assert last["usage"] == told
    assert start["message"]["usage"] == {
        "input_tokens": told["input_tokens"],
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": told["cache_read_input_tokens"],
        "output_tokens": 0,
    }


def test_the_content_is_thought_text_and_calls() -> None:
    assert whole(reasoning="Hm.", text="So.", tool_calls=(CALL,))["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": thought.sign("Hm.", shown=True)},
        {"type": "text", "text": "So."},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1.5}},
    ]
    assert whole(reasoning="Hm.", text="So.", thinking="hidden")["content"] == [{"type": "text", "text": "So."}]
    (signed,) = whole(reasoning="Hm.", thinking="signed")["content"]
    assert (signed["thinking"], thought.recall(signed["signature"])) == ("", "Hm.")
    assert whole(text="")["content"] == []


def test_arguments_keep_their_text() -> None:
    assert b'"input":{"a": 1.50}' in responder().whole(outcome(tool_calls=(CALL,)))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (None, {}),
        ("", {}),
        (" {} ", {}),
        ('{"a": [1,', {"INVALID_JSON": '{"a": [1,'}),
        ("[1]", {"INVALID_JSON": "[1]"}),
        ("Paris", {"INVALID_JSON": "Paris"}),
    ],
)
def test_arguments_that_are_no_object_are_shown_as_the_text_that_they_are(arguments: str | None, told: object) -> None:
    call = ToolCall("c1", "f", arguments)
    assert whole(tool_calls=(call,))["content"][0]["input"] == told
    deltas = [body["delta"] for body in bodies(responder().streamed(outcome(tool_calls=(call,)))) if "delta" in body]
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == told


def test_a_stream_begins_with_its_first_piece_and_ends_with_its_counts() -> None:
    speaking = responder()
    assert speaking.piece(Piece(ends=True)) == b""
    first = bodies(speaking.piece(Piece(deltas=(Delta(0),))))
    assert [body["type"] for body in first] == ["message_start"]
    assert [body["type"] for body in bodies(speaking.piece(Piece(deltas=(Delta(0, text="Hi"),))))] == [
        "content_block_start",
        "ping",
        "content_block_delta",
    ]
    ending = bodies(speaking.finish(outcome(Usage(prompt_tokens=4, completion_tokens=1), text="Hi")))
    assert [body["type"] for body in ending] == ["content_block_stop", "message_delta", "message_stop"]
    assert (ending[1]["usage"]["input_tokens"], ending[1]["usage"]["output_tokens"]) == (4, 1)


def test_a_stream_without_a_piece_is_a_message_all_the_same() -> None:
    ending = bodies(responder().finish(outcome()))
    assert [body["type"] for body in ending] == ["message_start", "message_delta", "message_stop"]


def test_choices_that_nobody_asked_for_are_left_out() -> None:
    speaking = responder()
    assert [body["type"] for body in bodies(speaking.piece(Piece(deltas=(Delta(1, text="Hi"),))))] == ["message_start"]
