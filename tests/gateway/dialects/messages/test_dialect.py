"""What the fields of an Anthropic request become, and which are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.dialect import BadRequest
from gateway.dialects.messages.dialect import MessagesDialect

MESSAGES = MessagesDialect()
TOOL = {"name": "f", "description": "Does it.", "input_schema": {"type": "object", "properties": {"a": {}}}}
CHAT_TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "Does it.", "parameters": TOOL["input_schema"]},
}


def body(**fields: Any) -> bytes:
    asked = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi."}], **fields}
    return json.dumps({name: value for name, value in asked.items() if value is not ...}).encode()


def sent(**fields: Any) -> dict[str, Any]:
    """The fields of the chat, without those that every one here has."""
    told = {name: json.loads(bytes(raw)) for name, raw in MESSAGES.read(body(**fields)).fields.items()}
    assert told.pop("messages") == [{"role": "user", "content": "Hi."}]
    assert (told.pop("model"), told.pop("max_tokens")) == ("m", 5)
    return told


def test_a_request_is_a_chat_of_one_choice() -> None:
    request = MESSAGES.read(body(stream=True, tools=[TOOL], stop_sequences=["END"]))
    assert (request.endpoint, request.model, request.stream, request.n, request.tools) == ("chat", "m", True, 1, True)
    assert request.stop_sequences == ("END",)


@pytest.mark.parametrize(
    ("given", "chat"),
    [
        ({"stop_sequences": ["a", "b"]}, {"stop": ["a", "b"]}),
        ({"stop_sequences": []}, {}),
        ({"temperature": 0.5, "top_p": 0.9, "top_k": 20}, {"temperature": 0.5, "top_p": 0.9, "top_k": 20}),
        ({"tools": []}, {}),
        ({"tools": [], "tool_choice": {"type": "auto"}}, {}),
        ({"tools": [TOOL]}, {"tools": [CHAT_TOOL]}),
        ({"tools": [{**TOOL, "type": "custom", "cache_control": {"type": "ephemeral"}}]}, {"tools": [CHAT_TOOL]}),
        ({"tools": [TOOL], "tool_choice": {"type": "auto"}}, {"tools": [CHAT_TOOL], "tool_choice": "auto"}),
        ({"tools": [TOOL], "tool_choice": {"type": "any"}}, {"tools": [CHAT_TOOL], "tool_choice": "required"}),
        ({"tools": [TOOL], "tool_choice": {"type": "none"}}, {"tools": [CHAT_TOOL], "tool_choice": "none"}),
        (
            {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}},
            {
                "tools": [CHAT_TOOL],
                "tool_choice": {"type": "function", "function": {"name": "f"}},
                "parallel_tool_calls": False,
            },
        ),
        (
            {"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": False}},
            {"tools": [CHAT_TOOL], "tool_choice": "auto"},
        ),
        ({"metadata": {"user_id": "u"}, "service_tier": "auto", "cache_control": {"type": "ephemeral"}}, {}),
        ({"context_management": {"edits": []}, "betas": ["x"], "speed": "fast", "container": None}, {}),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}, "output_config": {"effort": "high"}}, {}),
        ({"seed": 7, "chat_template_kwargs": {"a": 1}}, {"seed": 7, "chat_template_kwargs": {"a": 1}}),
        ({"n": 1, "logprobs": False, "stop": None}, {}),
    ],
)
def test_fields_say_the_same_in_a_chat(given: dict[str, Any], chat: dict[str, Any]) -> None:
    assert sent(**given) == chat


def test_tools_that_may_not_be_called_are_no_tools() -> None:
    assert not MESSAGES.read(body(tools=[TOOL], tool_choice={"type": "none"})).tools


@pytest.mark.parametrize("field", ["output_config", "output_format"])
def test_an_output_format_is_a_response_format(field: str) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    asked = {"type": "json_schema", "schema": schema}
    given = {"output_config": {"format": asked, "effort": "low"}} if field == "output_config" else {field: asked}
    assert sent(**given) == {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": schema, "strict": True},
        }
    }


@pytest.mark.parametrize(
    ("thinking", "shown"),
    [
        (None, "shown"),
        ({"type": "adaptive"}, "shown"),
        ({"type": "enabled", "budget_tokens": 2048, "display": "summarized"}, "shown"),
        ({"type": "adaptive", "display": "omitted"}, "signed"),
        ({"type": "disabled"}, "hidden"),
    ],
)
def test_thinking_says_what_its_client_sees(thinking: Any, shown: str) -> None:
    assert MESSAGES.read(body(thinking=thinking)).thinking == shown


def test_what_is_not_anthropics_keeps_its_own_text() -> None:
    given = b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"}],"seed":1.50e+3,"top_p": 0.90}'
    fields = MESSAGES.read(given).fields
    assert (bytes(fields["seed"]), bytes(fields["top_p"])) == (b"1.50e+3", b"0.90")


def test_counting_needs_no_limit() -> None:
    assert "max_tokens" not in MESSAGES.read_count(body(max_tokens=...)).fields


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"model": ...}, "model: Field required"),
        ({"model": None}, "model: Field required"),
        ({"model": 7}, "model: Expected `str`, got `int`"),
        ({"max_tokens": ...}, "max_tokens: Field required"),
        ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
        ({"max_tokens": "many"}, "max_tokens: Expected `int`, got `str`"),
        ({"messages": ...}, "messages: Field required"),
        ({"messages": []}, "messages: at least one message is required"),
        ({"messages": {}}, "messages: Expected `array`, got `object`"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "messages: the last"),
        ({"system": 5}, "system: Expected `str | array`, got `int`"),
        ({"system": [{"type": "image"}]}, "system.0.type: `image` cannot be translated"),
        ({"stream": "yes"}, "stream: Expected `bool`, got `str`"),
        ({"stop_sequences": "END"}, "stop_sequences: Expected `array`, got `str`"),
        ({"tools": {}}, "tools: Expected `array`, got `object`"),
        ({"tools": [{"name": "f"}]}, "tools.0.input_schema: a tool needs a JSON schema"),
        (
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "tools.0: `web_search_20250305` is a tool",
        ),
        ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice: Expected `object`, got `str`"),
        ({"tools": [TOOL], "tool_choice": {"type": "some"}}, "tool_choice.type: `some` cannot be translated"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name: Field required"),
        ({"thinking": {"type": "deep"}}, "thinking.type: `deep` cannot be translated"),
        ({"output_config": {"format": {"type": "yaml"}}}, "output_config.format.type: `yaml` cannot be translated"),
        ({"mcp_servers": [{"url": "https://example.org"}]}, "mcp_servers: this needs a service of Anthropic's"),
        ({"n": 2}, "n: not a field of this API: an answer of this API is one message"),
        ({"logprobs": True}, "logprobs: not a field of this API"),
        ({"stop": ["END"]}, "stop: not a field of this API: send `stop_sequences`"),
    ],
)
def test_a_field_that_cannot_be_heeded_is_refused_by_name(given: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest) as caught:
        MESSAGES.read(body(**given))
    assert caught.value.error.message.startswith(says)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"", "empty"),
        (b"[1]", "must be a JSON object"),
        (b'{"model": "\xff"}', "not valid JSON"),
        (b'{"messages":' + b"[" * 100_000, "not valid JSON"),
    ],
)
def test_a_body_that_is_no_request_is_refused_with_a_sentence(bad: bytes, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        MESSAGES.read(bad)


def test_nesting_without_end_is_refused_where_it_stands() -> None:
    deep = b'[{"type":"tool_result","tool_use_id":"a","content":' * 5
    with pytest.raises(BadRequest):
        MESSAGES.read(
            b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":' + deep + b"1" + b"}]" * 6 + b"}"
        )
