"""What items become in a chat, kind by kind, and what of them is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from adapters.schema import Choice, RecordedRequest, ToolCall, Trace
from gateway.dialects import thought
from gateway.dialects.dialect import BadRequest
from gateway.dialects.responses.dialect import ResponsesDialect

RESPONSES = ResponsesDialect()
HELLO = {"role": "user", "content": "Hello."}
FIRST = "00000000-0000-7000-8000-000000000001"
SECOND = "00000000-0000-7000-8000-000000000002"


def body(*items: Any, **fields: Any) -> bytes:
    return json.dumps({"model": "m", "input": [*items], **fields}).encode()


def chat(*items: Any, earlier: dict[str, Trace] | None = None, **fields: Any) -> list[dict[str, Any]]:
    read = RESPONSES.read_after(body(*items, **fields), earlier or {})
    told: list[dict[str, Any]] = json.loads(bytes(read.fields["messages"]))
    return told


def said(words: str, kind: str = "output_text") -> dict[str, Any]:
    part = {"type": kind, "refusal" if kind == "refusal" else "text": words, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def thinks(**fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [], **fields}


CALL = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": '{"x":1}'}
RESULT = {"type": "function_call_output", "call_id": "a", "output": "rain"}


def test_what_developers_say_at_the_start_is_one_prompt_with_the_instructions() -> None:
    developer = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "And kind."}]}
    assert chat(developer, HELLO, instructions="Be brief.") == [
        {"role": "system", "content": "Be brief.\nAnd kind."},
        HELLO,
    ]
    assert chat(HELLO, developer)[0]["content"] == "Hello.\n<system>\nAnd kind.\n</system>"


def test_an_answer_comes_back_as_it_was_sampled() -> None:
    thought_of = thinks(content=[{"type": "reasoning_text", "text": "Hm."}])
    custom = {"type": "custom_tool_call", "call_id": "b", "name": "patch", "input": "+a"}
    custom_result = {
        "type": "custom_tool_call_output",
        "call_id": "b",
        "output": [{"type": "input_text", "text": "ok"}],
    }
    history = chat(HELLO, thought_of, said("Let me look."), CALL, custom, RESULT, custom_result)
    assert history[1:] == [
        {
            "role": "assistant",
            "content": "Let me look.",
            "reasoning_content": "Hm.",
            "tool_calls": [
                {"type": "function", "id": "a", "function": {"name": "f", "arguments": '{"x":1}'}},
                {"type": "function", "id": "b", "function": {"name": "patch", "arguments": '{"input": "+a"}'}},
            ],
        },
        {"role": "tool", "content": "rain", "tool_call_id": "a"},
        {"role": "tool", "content": "ok", "tool_call_id": "b"},
    ]


def test_white_space_beside_calls_is_no_text() -> None:
    """Whether it came back as an item, or as what the trace says of an answer that is named."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    calls = (ToolCall("a", "f", "{}"),)
    earlier = {FIRST: trace(FIRST, body(HELLO), text="\n", tool_calls=calls)}
    named = {"previous_response_id": f"resp_{FIRST.replace('-', '')}"}
    told = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert chat(HELLO, said("\n\n"), {**CALL, "arguments": "{}"}, RESULT)[1] == told
    assert chat(RESULT, earlier=earlier, **named)[1] == told


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"content": [{"type": "reasoning_text", "text": "Hm."}], "encrypted_content": "else"}, "Hm."),
        ({"encrypted_content": thought.sign("Hm.", shown=False), "summary": []}, "Hm."),
        ({"summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]}, "a\nb"),
        ({}, None),
    ],
)
def test_a_thought_is_its_own_words_where_they_are_to_be_had(fields: dict[str, Any], words: str | None) -> None:
    assert chat(HELLO, thinks(**fields), said("Four."))[1].get("reasoning_content") == words


def test_what_an_assistant_refused_in_words_is_text() -> None:
    assert chat(HELLO, said("I can't.", "refusal"), HELLO)[1]["content"] == "I can't."


def test_a_picture_is_the_users_also_where_a_tool_showed_it() -> None:
    picture = {"type": "input_image", "image_url": "https://x/y.png", "detail": "auto"}
    part = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
    assert chat({"role": "user", "content": [picture]}) == [{"role": "user", "content": [part]}]
    shown = chat(HELLO, CALL, {**RESULT, "output": [{"type": "input_text", "text": "See:"}, picture]})
    assert shown[-2:] == [
        {"role": "tool", "content": "See:", "tool_call_id": "a"},
        {"role": "user", "content": [part]},
    ]


@pytest.mark.parametrize(
    ("item", "where"),
    [
        (thinks(encrypted_content="gAAAA"), "input[0].encrypted_content"),
        ({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}, "input[0].content[0]"),
        ({"role": "system", "content": [{"type": "input_image", "image_url": "u"}]}, "input[0].content[0]"),
        ({"type": "local_shell_call", "call_id": "a"}, "input[0].type"),
        ({"type": "item_reference", "id": "msg_x"}, "input[0].id"),
        ({"id": "msg_x"}, "input[0].id"),
        ({**RESULT, "call_id": None}, "input[0].call_id"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_its_place(item: Any, where: str) -> None:
    with pytest.raises(BadRequest) as caught:
        chat(item)
    assert caught.value.error.param == where


def trace(trace_id: str, asked: bytes, **choice: Any) -> Trace:
    return Trace(
        trace_id=trace_id,
        session_id="s",
        dialect="responses",
        status="ok",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        request=RecordedRequest(asked),
        choices=(Choice(0, **choice),),
    )


def test_a_chain_of_answers_is_told_from_its_beginning_with_the_last_instructions() -> None:
    second = body(RESULT, previous_response_id="resp_" + FIRST.replace("-", ""), instructions="Old.")
    earlier = {
        # Two calls of one id would be one to a client; the second has another, here and in its answer.
        FIRST: trace(FIRST, body(HELLO), tool_calls=(ToolCall("a", "f", "{}"), ToolCall("a", "g", ""))),
        SECOND: trace(SECOND, second, text="Rain.", reasoning="Hm."),
    }
    named = "resp_" + SECOND.replace("-", "")
    assert RESPONSES.names(body(HELLO, previous_response_id=named)) == [SECOND]
    assert RESPONSES.names(second) == [FIRST]
    told = chat(HELLO, earlier=earlier, previous_response_id=named, instructions="New.")
    assert [(message["role"], message["content"]) for message in told] == [
        ("system", "New."),
        ("user", "Hello."),
        ("assistant", None),
        ("tool", "rain"),
        ("assistant", "Rain."),
        ("user", "Hello."),
    ]
    calls = [(call["id"], call["function"]) for call in told[2]["tool_calls"]]
    assert calls == [
        ("a", {"name": "f", "arguments": "{}"}),
        (f"call_{FIRST.replace('-', '')}_1", {"name": "g", "arguments": "{}"}),
    ]
    with pytest.raises(BadRequest) as caught:
        chat(HELLO, earlier={SECOND: earlier[SECOND]}, previous_response_id=named)
    assert caught.value.error.code == "previous_response_not_found"


def test_a_reference_is_the_item_that_it_names() -> None:
    calls = (ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"))
    earlier = {FIRST: trace(FIRST, body(HELLO), text="Rain.", reasoning="Hm.", tool_calls=calls)}
    short = FIRST.replace("-", "")
    items = [{"type": "item_reference", "id": f"{kind}_{short}_{n}"} for kind, n in (("rs", 0), ("msg", 0), ("fc", 1))]
    asked = body(HELLO, *items)
    assert set(RESPONSES.names(asked)) == {FIRST}
    (_, assistant) = chat(HELLO, *items, earlier=earlier)
    assert (assistant["content"], assistant["reasoning_content"]) == ("Rain.", "Hm.")
    assert [call["id"] for call in assistant["tool_calls"]] == ["b"]
