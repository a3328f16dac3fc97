"""Whatever comes in, the dialect reads it or says what is wrong with it, and nothing else happens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.answer import Outcome
from adapters.answer_shape import Delta, ToolFragment
from adapters.schema import Choice, Completion, ToolCall, Verdict
from gateway.dialects.dialect import BadRequest
from gateway.dialects.messages.answer import MessagesRequest, MessagesResponder
from gateway.dialects.messages.blocks import BlockWriter
from gateway.dialects.messages.dialect import MessagesDialect

MESSAGES = MessagesDialect()

words = st.sampled_from(
    [
        "text",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "tool_result",
        "image",
        "document",
        "search_result",
        "base64",
        "url",
        "content",
        "file",
        "user",
        "assistant",
        "system",
        "tool",
        "auto",
        "any",
        "none",
        "custom",
        "web_search_20250305",
        "enabled",
        "disabled",
        "json_schema",
        "object",
    ]
)
names = st.sampled_from(
    [
        "type",
        "text",
        "thinking",
        "signature",
        "data",
        "id",
        "name",
        "input",
        "tool_use_id",
        "content",
        "is_error",
        "source",
        "media_type",
        "url",
        "title",
        "context",
        "role",
        "schema",
        "format",
        "display",
        "input_schema",
    ]
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8), words)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=5), max_leaves=12
)
blocks = st.fixed_dictionaries(
    {"type": words},
    optional=dict.fromkeys(("text", "thinking", "id", "name", "input", "content", "source"), anything),
)
messages = st.fixed_dictionaries(
    {"role": words, "content": st.text(max_size=5) | st.lists(blocks | anything, max_size=4)}
)
requests = st.fixed_dictionaries(
    {"model": st.just("m") | anything, "max_tokens": st.just(5) | anything},
    optional={
        "messages": st.lists(messages | anything, max_size=4) | anything,
        "system": anything,
        "tools": st.lists(st.fixed_dictionaries({"name": scalars}, optional={"input_schema": anything}), max_size=2),
        "tool_choice": anything,
        "stop_sequences": anything,
        "thinking": anything,
        "output_config": anything,
        "stream": anything,
        "seed": anything,
    },
)


@settings(max_examples=200, deadline=None)
@given(requests)
def test_any_request_is_read_or_refused_with_a_sentence(asked: dict[str, Any]) -> None:
    body = json.dumps(asked).encode()
    for read in (MESSAGES.read, MESSAGES.read_count):
        try:
            request = read(body)
        except BadRequest as exc:
            error = exc.error
        else:
            chat = json.loads(bytes(request.fields["messages"]))
            assert all({"role", "content"} <= message.keys() for message in chat)
            continue
        told = json.loads(MESSAGES.error_body(400, error))
        assert error.message
        assert told == {"type": "error", "error": {"type": "invalid_request_error", "message": error.message}}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match=r"."):
        MESSAGES.read(body)


_pieces = st.builds(
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


@settings(max_examples=200, deadline=None)
@given(st.lists(_pieces, max_size=12))
def test_blocks_follow_each_other_whatever_the_pieces(pieces: list[Delta]) -> None:
    """Each has its start, its deltas and its stop before the next one's start; no text and no thought is lost."""
    writer = BlockWriter("shown")
    events = [event for piece in pieces for event in writer.add(piece)] + writer.close()
    open_at, seen, text, thoughts = None, -1, "", ""
    for event in events:
        body = json.loads(event.partition(b"data: ")[2])
        match body["type"]:
            case "content_block_start":
                assert (open_at, body["index"]) == (None, seen + 1)
                open_at = seen = body["index"]
            case "content_block_delta":
                assert open_at == body["index"]
                text += body["delta"].get("text", "")
                thoughts += body["delta"].get("thinking", "")
            case "content_block_stop":
                assert open_at == body["index"]
                open_at = None
    assert open_at is None
    assert text == "".join(piece.text or "" for piece in pieces)
    assert thoughts == "".join(piece.reasoning or "" for piece in pieces)


@settings(max_examples=200, deadline=None)
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
def test_any_answer_is_a_message_whole_and_streamed_alike(choice: Choice) -> None:
    outcome = Outcome(Completion(choices=(choice,)), Verdict("none", None, "none", None), b"", True)
    request = MessagesRequest("chat", {}, "m", stop_sequences=("END",))
    whole = json.loads(MessagesResponder(request).whole(outcome))
    events = MessagesResponder(request).streamed(outcome).removesuffix(b"\n\n").split(b"\n\n")
    bodies = [json.loads(event.partition(b"data: ")[2]) for event in events]
    started = [body["content_block"]["type"] for body in bodies if body["type"] == "content_block_start"]
    assert started == [block["type"] for block in whole["content"]]
    assert all(isinstance(block["input"], dict) for block in whole["content"] if block["type"] == "tool_use")
    assert bodies[-2]["delta"]["stop_reason"] == whole["stop_reason"]
    assert bodies[-2]["usage"] == whole["usage"]
