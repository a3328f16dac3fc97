"""What of a completion becomes a response's output, status and counts, and its events in whatever order pieces come."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from adapters.answer import Outcome, Piece
from adapters.answer_shape import Delta, ToolFragment
from adapters.schema import Choice, Completion, Error, ToolCall, Usage, Verdict
from gateway.dialects.responses.answer import ResponsesRequest, ResponsesResponder

TRACE = "00000000-0000-7000-8000-000000000001"
SHORT = TRACE.replace("-", "")
CALL = ToolCall("c1", "f", '{"a": 1.50}')


def outcome(usage: Usage | None = None, client: bytes = b"", **choice: Any) -> Outcome:
    told = Completion(choices=(Choice(0, **choice),), usage=usage)
    return Outcome(told, Verdict("none", None, "none", None), client, finished=True)


def responder(**asked: Any) -> ResponsesResponder:
    raw = {name: Raw(json.dumps(value).encode()) for name, value in asked.items()}
    return ResponsesResponder(ResponsesRequest("chat", {}, "m", logprobs="include" in asked, asked=raw), TRACE)


def whole(usage: Usage | None = None, **choice: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(responder().whole(outcome(usage, **choice)))
    return told


def bodies(stream: bytes) -> list[dict[str, Any]]:
    return [json.loads(event.partition(b"data: ")[2]) for event in stream.removesuffix(b"\n\n").split(b"\n\n")]


@pytest.mark.parametrize(
    ("choice", "status", "reason"),
    [
        ({"finish_reason": "stop"}, "completed", None),
        ({"finish_reason": "length"}, "incomplete", "max_output_tokens"),
        ({"finish_reason": "content_filter"}, "incomplete", "content_filter"),
        ({"finish_reason": "tool_calls", "tool_calls": (CALL,)}, "completed", None),
        ({"finish_reason": "abort"}, "completed", None),
        ({}, "completed", None),
    ],
)
def test_how_an_answer_ended(choice: dict[str, Any], status: str, reason: str | None) -> None:
    told = whole(**choice)
    assert told["status"] == status
    assert told["incomplete_details"] == (None if reason is None else {"reason": reason})
    last = bodies(responder().streamed(outcome(**choice)))[-1]
    assert last["type"] == f"response.{status}"
    assert last["response"]["incomplete_details"] == told["incomplete_details"]


def test_what_was_asked_is_repeated() -> None:
    asked = {"temperature": 0.5, "metadata": {"a": "b"}, "store": False, "tools": [{"type": "custom", "name": "c"}]}
    told = json.loads(responder(**asked, previous_response_id="resp_1").whole(outcome()))
    assert {name: told[name] for name in asked} == asked
    assert told["previous_response_id"] == "resp_1"
    assert told["id"] == f"resp_{SHORT}"


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (None, None),
        (Usage(10, 5, 15, 4, 2), (10, 4, 5, 2, 15)),
        (Usage(prompt_tokens=10, completion_tokens=5), (10, 0, 5, 0, 15)),
    ],
)
def test_counts(usage: Usage | None, told: tuple[int, ...] | None) -> None:
    counts = whole(usage)["usage"]
    if told is None:
        assert counts is None
        return
    inputs, outputs = counts["input_tokens_details"], counts["output_tokens_details"]
    assert told == (
        counts["input_tokens"],
        inputs["cached_tokens"],
        counts["output_tokens"],
        outputs["reasoning_tokens"],
        counts["total_tokens"],
    )


def test_pieces_of_calls_that_come_in_turns_are_items_one_after_the_other() -> None:
    def fragment(position: int, arguments: str, name: str | None = None) -> Piece:
        call = ToolFragment(position, f"c{position}" if name else None, name, arguments)
        return Piece(deltas=(Delta(0, tool_calls=(call,)),))

    said = responder()
    pieces = [fragment(0, "{", "f"), fragment(1, "{", "g"), fragment(0, "}"), fragment(1, "}")]
    stream = b"".join([*map(said.piece, pieces), said.finish(outcome(finish_reason="tool_calls"))])
    events = [(event["type"].rpartition(".")[2], event.get("output_index")) for event in bodies(stream)[2:-1]]
    assert events == [(word, at) for at in (0, 1) for word in ("added", "delta", "delta", "done", "done")]
    assert [item["name"] for item in bodies(stream)[-1]["response"]["output"]] == ["f", "g"]


def test_a_call_that_a_limit_cut_is_incomplete() -> None:
    told = whole(finish_reason="length", text="Look.", tool_calls=(ToolCall("c", "f", '{"a'),))
    assert [item["status"] for item in told["output"]] == ["completed", "incomplete"]


def test_ids_that_an_engine_did_not_tell_or_told_twice_are_told_apart() -> None:
    calls = (ToolCall(None, "f", ""), ToolCall("c", "f", "{}"), ToolCall("c", "f", "{}"))
    told = whole(tool_calls=calls)["output"]
    assert [item["call_id"] for item in told] == [f"call_{SHORT}_0", "c", f"call_{SHORT}_2"]
    assert [item["arguments"] for item in told] == ["{}"] * 3


def test_an_error_before_the_first_token_has_its_response_too() -> None:
    told = bodies(responder().error_event(Error("Slow down.", code=429)))
    assert [event["type"] for event in told] == [
        "response.created",
        "response.in_progress",
        "error",
        "response.failed",
    ]
    assert told[-1]["response"]["error"] == {"code": "rate_limit_exceeded", "message": "Slow down."}


def test_logprobs_of_a_stream_are_those_of_a_whole_answer() -> None:
    def token(text: str) -> dict[str, Any]:
        top = [{"token": text, "logprob": -0.5, "bytes": None}]
        return {"token": text, "logprob": -0.5, "bytes": None, "top_logprobs": top}

    words = ["Hi", "é"]
    body = json.dumps({"choices": [{"index": 0, "logprobs": {"content": [*map(token, words)]}}]}).encode()
    asking = {"include": ["message.output_text.logprobs"]}
    at_once = json.loads(responder(**asking).whole(outcome(client=body, text="Hié")))
    said = responder(**asking)
    for word in words:
        raw = Raw(json.dumps({"content": [token(word)]}).encode())
        said.piece(Piece(deltas=(Delta(0, text=word, logprobs=raw),)))
    streamed = bodies(said.finish(outcome(text="Hié")))[-1]["response"]
    (item,) = at_once["output"]
    assert streamed["output"] == [item]
    assert [one["bytes"] for one in item["content"][0]["logprobs"]] == [[72, 105], [195, 169]]
