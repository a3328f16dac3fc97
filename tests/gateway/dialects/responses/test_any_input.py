"""Whatever comes in, the dialect reads it or says what is wrong with it, and nothing else happens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from adapters.answer import Outcome, Piece
from adapters.answer_shape import Delta, ToolFragment
from adapters.schema import Choice, Completion, ToolCall, Verdict
from gateway.dialects.dialect import BadRequest
from gateway.dialects.responses.answer import ResponsesRequest, ResponsesResponder
from gateway.dialects.responses.dialect import ResponsesDialect

RESPONSES = ResponsesDialect()
TRACE = "00000000-0000-7000-8000-000000000001"
KINDS = [
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "item_reference",
    "web_search_call",
    "input_text",
    "output_text",
    "refusal",
    "input_image",
    "summary_text",
    "reasoning_text",
    "function",
    "custom",
    "namespace",
    "allowed_tools",
    "grammar",
    "json_schema",
    "text",
]
NAMES = [
    "type",
    "text",
    "refusal",
    "image_url",
    "summary",
    "content",
    "encrypted_content",
    "call_id",
    "name",
    "namespace",
    "arguments",
    "input",
    "output",
    "id",
    "role",
    "tools",
    "parameters",
    "format",
    "mode",
    "effort",
    "schema",
]
OTHERS = [
    "background",
    "include",
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "reasoning",
    "seed",
    "stream",
    "text",
    "tool_choice",
    "top_logprobs",
]
words = st.sampled_from([*KINDS, "user", "assistant", "system", "developer", "auto", "none", "required", "high"])
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8), words)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)
parts = st.fixed_dictionaries({"type": words}, optional=dict.fromkeys(("text", "refusal", "image_url"), anything))
items = st.fixed_dictionaries(
    {},
    optional={
        "type": words,
        "role": words,
        "content": st.text(max_size=5) | st.lists(parts | anything, max_size=3),
        "output": st.text(max_size=5) | st.lists(parts | anything, max_size=3),
        "summary": st.lists(parts, max_size=2),
        **dict.fromkeys(("call_id", "name", "arguments", "input", "id", "encrypted_content", "namespace"), scalars),
    },
)
tools = st.fixed_dictionaries(
    {"type": words}, optional={"name": scalars, "parameters": anything, "format": anything, "tools": anything}
)
requests = st.fixed_dictionaries(
    {
        "model": st.just("m") | anything,
        "input": st.text(max_size=5) | st.lists(items | anything, max_size=4) | anything,
    },
    optional={
        "tools": st.lists(tools, max_size=3),
        **dict.fromkeys(OTHERS, anything),
    },
)


@settings(max_examples=200, deadline=None)
@given(requests)
def test_any_request_is_read_or_refused_with_a_sentence(asked: dict[str, Any]) -> None:
    body = json.dumps(asked).encode()
    try:
        RESPONSES.names(body)
        request = RESPONSES.read(body)
    except BadRequest as exc:
        told = json.loads(RESPONSES.error_body(400, exc.error))["error"]
        assert told["message"]
        assert told["type"] == "invalid_request_error"
    else:
        chat = json.loads(bytes(request.fields["messages"]))
        assert all({"role", "content"} <= message.keys() for message in chat)
        answer = RESPONSES.responder(request, TRACE).whole(_outcome(Choice(0, text="x")))
        assert json.loads(answer)["output"][0]["content"][0]["text"] == "x"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match=r"."):
        RESPONSES.read(body)


def _outcome(choice: Choice) -> Outcome:
    return Outcome(Completion(choices=(choice,)), Verdict("none", None, "none", None), b"", True)


def _bodies(stream: bytes) -> list[dict[str, Any]]:
    return [json.loads(event.partition(b"data: ")[2]) for event in stream.removesuffix(b"\n\n").split(b"\n\n")]


KNOWN: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
SAID = ResponsesRequest("chat", {}, "m")

pieces = st.builds(
    Delta,
    st.just(0),
    text=st.none() | st.text(max_size=3),
    reasoning=st.none() | st.text(max_size=3),
    tool_calls=st.lists(
        st.builds(
            ToolFragment,
            st.none() | st.integers(0, 2),
            st.none() | st.sampled_from(["a", "b"]),
            st.none() | st.sampled_from(["f", "g"]),
            st.none() | st.sampled_from(["{", '"a"', ":1", "}", "{}", ""]),
        ),
        max_size=2,
    ).map(tuple),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces, max_size=12))
def test_items_follow_each_other_whatever_the_pieces(deltas: list[Delta]) -> None:
    """Each event is one that the SDK knows; each item has its start and its end before the next one's start."""
    responder = ResponsesResponder(SAID, TRACE)
    stream = b"".join(responder.piece(Piece(deltas=(delta,))) for delta in deltas)
    told = _bodies(stream + responder.finish(_outcome(Choice(0, finish_reason="stop"))))
    assert [body["sequence_number"] for body in told] == [*range(len(told))]
    open_at, seen, text, thoughts = None, -1, "", ""
    for body in told[2:-1]:
        assert KNOWN.validate_python(body).type == body["type"]
        match body["type"]:
            case "response.output_item.added":
                assert (open_at, body["output_index"]) == (None, seen + 1)
                open_at = seen = body["output_index"]
                continue
            case "response.output_text.delta":
                text += body["delta"]
            case "response.reasoning_text.delta":
                thoughts += body["delta"]
        assert open_at == body["output_index"]
        if body["type"] == "response.output_item.done":
            open_at = None
    assert open_at is None
    assert text == "".join(delta.text or "" for delta in deltas)
    assert thoughts == "".join(delta.reasoning or "" for delta in deltas)
    output = Response.model_validate(told[-1]["response"]).output
    assert len(output) == seen + 1
    assert len({item.to_dict().get("id") for item in output}) == len(output)


@settings(max_examples=150, deadline=None)
@given(
    st.builds(
        Choice,
        st.just(0),
        text=st.none() | st.text(max_size=5),
        reasoning=st.none() | st.text(max_size=5),
        tool_calls=st.none()
        | st.lists(
            st.builds(
                ToolCall,
                st.none() | st.text(max_size=3),
                st.none() | st.text(max_size=3),
                st.none() | anything.map(json.dumps) | st.text(),
            ),
            max_size=3,
        ).map(tuple),
        finish_reason=st.none() | st.sampled_from(["stop", "length", "tool_calls", "content_filter", "abort"]),
        stop_reason=st.none() | st.integers() | st.just("END"),
    )
)
def test_any_answer_is_a_response_whole_and_streamed_alike(choice: Choice) -> None:
    whole = json.loads(ResponsesResponder(SAID, TRACE).whole(_outcome(choice)))
    last = _bodies(ResponsesResponder(SAID, TRACE).streamed(_outcome(choice)))[-1]["response"]
    assert last["output"] == whole["output"]
    assert (last["status"], last["usage"]) == (whole["status"], whole["usage"])
    calls = [item["call_id"] for item in whole["output"] if "call_id" in item]
    assert len({*calls}) == len(calls) == len(choice.tool_calls or ())
    Response.model_validate(whole)
