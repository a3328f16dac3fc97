"""What an Anthropic history becomes in a chat, kind by kind, and what of it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects import thought
from gateway.dialects.dialect import BadRequest
from gateway.dialects.messages.dialect import MessagesDialect

MESSAGES = MessagesDialect()
HELLO = {"role": "user", "content": "Hello."}
CAT = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
CAT_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def chat(*messages: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    body = {"model": "m", "max_tokens": 5, "messages": [*messages], **fields}
    told: list[dict[str, Any]] = json.loads(bytes(MESSAGES.read(json.dumps(body).encode()).fields["messages"]))
    return told


def user(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    return chat({"role": "user", "content": [*blocks]})


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    _, said, _ = chat(HELLO, {"role": "assistant", "content": [*blocks]}, HELLO)
    return said


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("Be brief.", "Be brief."),
        ([text("Be brief."), text("Be kind.", cache_control={"type": "ephemeral"})], "Be brief.\nBe kind."),
    ],
)
def test_a_system_prompt_is_the_first_message(system: Any, said: str) -> None:
    assert chat(HELLO, system=system) == [{"role": "system", "content": said}, HELLO]


@pytest.mark.parametrize("system", ["", [], None])
def test_a_system_prompt_that_says_nothing_is_none(system: Any) -> None:
    assert chat(HELLO, system=system) == [HELLO]


def test_a_system_message_at_the_start_belongs_to_the_system_prompt() -> None:
    first = {"role": "system", "content": "And kind."}
    assert chat(first, HELLO, system="Be brief.") == [{"role": "system", "content": "Be brief.\nAnd kind."}, HELLO]


def test_what_the_system_says_later_stays_in_its_place_in_words_that_every_template_takes() -> None:
    later = {"role": "system", "content": [text("Now be brief.")]}
    assert chat(HELLO, later, system="Be kind.") == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello.\n<system>\nNow be brief.\n</system>"},
    ]
    called = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "ok"}]}
    assert chat(HELLO, called, result, {"role": "system", "content": "Now be brief."})[2:] == [
        {"role": "tool", "content": "ok", "tool_call_id": "a"},
        {"role": "user", "content": "<system>\nNow be brief.\n</system>"},
    ]


def test_texts_of_a_user_are_one_string_whoever_renders_it() -> None:
    assert user(text("One."), text("Two.", cache_control={"type": "ephemeral"})) == [
        {"role": "user", "content": "One.\nTwo."}
    ]


def test_messages_of_one_role_in_a_row_are_one_turn() -> None:
    assert chat(HELLO, {"role": "user", "content": [text("Are you there?")]}) == [
        {"role": "user", "content": "Hello.\nAre you there?"}
    ]


def test_images_are_passed_on_in_their_place() -> None:
    web = {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}}
    assert user(text("This:"), CAT, text("or that:"), web) == [
        {
            "role": "user",
            "content": [
                text("This:"),
                CAT_PART,
                text("or that:"),
                {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("source", "content"),
    [
        ({"type": "text", "media_type": "text/plain", "data": "Once."}, "Tale\nAbout cats.\nOnce."),
        ({"type": "content", "content": "Once."}, "Tale\nAbout cats.\nOnce."),
        ({"type": "content", "content": [text("Once."), text("Twice.")]}, "Tale\nAbout cats.\nOnce.\nTwice."),
    ],
)
def test_a_document_of_text_is_text(source: dict[str, Any], content: str) -> None:
    document = {"type": "document", "source": source, "title": "Tale", "context": "About cats."}
    assert user(document) == [{"role": "user", "content": content}]


def test_a_search_result_is_text_with_its_source() -> None:
    result = {"type": "search_result", "title": "Cats", "source": "https://example.org", "content": [text("Meow.")]}
    assert user(result) == [{"role": "user", "content": "Cats (https://example.org)\nMeow."}]


def test_what_the_assistant_said_and_called_is_one_message() -> None:
    """The arguments are the input's own text, numbers and white space included."""
    body = (
        b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hello."},'
        b'{"role":"assistant","content":[{"type":"text","text":"One. "},{"type":"text","text":"Two."},'
        b'{"type":"tool_use","id":"call_1","name":"f","input":{"a": 1.50,"b":"\\u00e9"}}]},'
        b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"ok"}]}]}'
    )
    assert json.loads(bytes(MESSAGES.read(body).fields["messages"]))[1:] == [
        {
            "role": "assistant",
            "content": "One. Two.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "f", "arguments": '{"a": 1.50,"b":"\\u00e9"}'},
                }
            ],
        },
        {"role": "tool", "content": "ok", "tool_call_id": "call_1"},
    ]


def test_arguments_of_a_body_that_is_indented_for_a_reader_are_put_on_one_line() -> None:
    messages = [
        HELLO,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]},
        HELLO,
    ]
    body = json.dumps({"model": "m", "max_tokens": 5, "messages": messages}, indent=2)
    body = body.replace('"input": {}', '"input": {\n  "a": 1.50,\r\n  "b": ["\\u00e9\\n: ,"]\n}')
    _, said, _ = json.loads(bytes(MESSAGES.read(body.encode()).fields["messages"]))
    assert said["tool_calls"][0]["function"]["arguments"] == r'{"a": 1.50, "b": ["\u00e9\n: ,"]}'


def test_calls_without_a_word_have_no_content() -> None:
    said = assistant({"type": "tool_use", "id": "c", "name": "f", "input": {}})
    assert said["content"] is None


def test_thinking_goes_back_where_templates_look_for_it() -> None:
    said = assistant({"type": "thinking", "thinking": "Hm.", "signature": thought.sign("Hm.", shown=True)}, text("So."))
    assert said == {"role": "assistant", "content": "So.", "reasoning_content": "Hm."}


def test_a_thought_that_was_not_shown_comes_back_in_its_signature() -> None:
    signature = thought.sign("Grüße.", shown=False)
    assert (
        assistant({"type": "thinking", "thinking": "", "signature": signature}, text("So."))["reasoning_content"]
        == "Grüße."
    )
    assert assistant({"type": "redacted_thinking", "data": signature}, text("So."))["reasoning_content"] == "Grüße."


@pytest.mark.parametrize("signature", ["", "EqQBCgIYAhIM1gbcDa9GJwZA2b3h", "rg1.d.AAAA", "rg1.t.%%%", "rg1.t._w=="])
def test_a_signature_of_another_server_does_no_harm(signature: str) -> None:
    block = {"type": "thinking", "thinking": "Hm.", "signature": signature}
    assert assistant(block, text("So."))["reasoning_content"] == "Hm."
    assert "reasoning_content" not in assistant({**block, "thinking": ""}, text("So."))


def test_results_of_tools_come_before_what_the_user_says() -> None:
    one = {"type": "tool_result", "tool_use_id": "a", "content": "18 °C"}
    two = {"type": "tool_result", "tool_use_id": "b", "content": [text("wet"), text("windy")]}
    none = {"type": "tool_result", "tool_use_id": "c"}
    assert user(text("And?"), one, two, none) == [
        {"role": "tool", "content": "18 °C", "tool_call_id": "a"},
        {"role": "tool", "content": "wet\nwindy", "tool_call_id": "b"},
        {"role": "tool", "content": "", "tool_call_id": "c"},
        {"role": "user", "content": "And?"},
    ]


def test_a_result_that_is_an_error_says_so_once() -> None:
    failed = {"type": "tool_result", "tool_use_id": "a", "is_error": True}
    assert user({**failed, "content": "No such city."})[0]["content"] == "Error: No such city."
    assert user({**failed, "content": "Error: no such city."})[0]["content"] == "Error: no such city."


def test_images_of_a_tool_are_shown_by_the_user_that_follows() -> None:
    """Most servers take text alone from a tool."""
    result = {"type": "tool_result", "tool_use_id": "a", "content": [text("A cat."), CAT]}
    assert user(result, text("Cute?")) == [
        {"role": "tool", "content": "A cat.", "tool_call_id": "a"},
        {"role": "user", "content": [CAT_PART, text("Cute?")]},
    ]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"role": "user"}, "messages.0: Object missing required field `content`"),
        ({"role": "user", "content": 5}, "messages.0.content: Expected `str | array`, got `int`"),
        ({"role": "tool", "content": "x"}, "messages.0.role: Invalid enum value 'tool'"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages.0.content.0: Object missing required field `text`"),
        ({"role": "user", "content": [text("x"), {}]}, "messages.0.content.1: Object missing required field `type`"),
        (
            {"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]},
            "messages.0.content.0.type: `container_upload` cannot be translated for the backends of this gateway",
        ),
        (
            {"role": "user", "content": [{"type": "document", "source": {"type": "base64", "data": "JVBERi0="}}]},
            "messages.0.content.0.source.type: `base64` cannot be translated",
        ),
        (
            {"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]},
            "messages.0.content.0.source.type: `file` cannot be translated",
        ),
        (
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "a",
                        "content": [{"type": "tool_reference", "tool_name": "f"}],
                    }
                ],
            },
            "messages.0.content.0.content.0.type: `tool_reference` cannot be translated",
        ),
        (
            {"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
            "messages.0.content.0: a message of the user has no `tool_use` block",
        ),
        (
            {"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
            "messages.0.content.0: a message of the assistant has no `tool_result` block",
        ),
        ({"role": "system", "content": [CAT]}, "messages.0.content.0: a message of the system has no `image` block"),
        (
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": [1]}]},
            "messages.0.content.0.input: Input should be an object",
        ),
        (
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "EmwKAhgB"}]},
            "messages.0.content.0: a `redacted_thinking` block can be read by the server that made it alone",
        ),
        (
            {"role": "assistant", "content": [{"type": "web_search_tool_result", "tool_use_id": "a", "content": []}]},
            "messages.0.content.0.type: `web_search_tool_result` cannot be translated",
        ),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(message: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest) as caught:
        chat(message, HELLO)
    assert caught.value.error.message.startswith(says)
    assert caught.value.error.type == "invalid_request_error"


def test_white_space_beside_calls_is_no_text() -> None:
    """A parser's leavings, which Anthropic's own API refuses to be given. A text keeps its own."""
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    blank, text = {"type": "text", "text": " \n"}, {"type": "text", "text": "Look.\n"}
    assert chat({"role": "assistant", "content": [blank, call]}, HELLO)[0]["content"] is None
    assert chat({"role": "assistant", "content": [text, call]}, HELLO)[0]["content"] == "Look.\n"
    assert chat({"role": "assistant", "content": [blank]}, HELLO)[0]["content"] == " \n"
