"""What a Responses request becomes in the fields of a chat, and what of it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.schema import Error
from gateway.dialects.dialect import BadRequest
from gateway.dialects.responses.answer import ResponsesRequest
from gateway.dialects.responses.dialect import ResponsesDialect

RESPONSES = ResponsesDialect()


def read(**fields: Any) -> ResponsesRequest:
    return RESPONSES.read(json.dumps({"model": "m", "input": "Hi.", **fields}).encode())


def chat(**fields: Any) -> dict[str, Any]:
    """The fields of the chat, but model and messages."""
    told = {name: json.loads(bytes(raw)) for name, raw in read(**fields).fields.items()}
    assert told.pop("model") == "m"
    assert told.pop("messages")
    return told


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, {}),
        ({"max_output_tokens": 9}, {"max_tokens": 9}),
        ({"temperature": 0.50, "top_p": 1}, {"temperature": 0.5, "top_p": 1}),
        ({"text": {"format": {"type": "text"}, "verbosity": "low"}}, {}),
        ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
        (
            {"text": {"format": {"type": "json_schema", "name": "a", "schema": {"b": 1}, "strict": True}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": {"b": 1}, "strict": True},
                }
            },
        ),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning_effort": "low"}),
        ({"reasoning": {"effort": "xhigh"}}, {"reasoning_effort": "high"}),
        ({"reasoning": {"effort": "none"}}, {}),
        ({"reasoning": {"summary": "auto"}}, {}),
        ({"include": ["reasoning.encrypted_content"]}, {}),
        ({"include": ["message.output_text.logprobs"]}, {"logprobs": True, "top_logprobs": 0}),
        ({"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
        ({"top_logprobs": 0}, {}),
        ({"stream": True, "stream_options": {"include_obfuscation": False}}, {"stream": True}),
        (
            {"store": False, "metadata": {"a": "b"}, "truncation": "auto", "service_tier": "auto", "user": "u"}
            | {"prompt_cache_key": "k", "safety_identifier": "s", "background": False, "conversation": None},
            {},
        ),
        (
            {"seed": 7, "chat_template_kwargs": {"a": 1}, "stop": ["x"]},
            {"seed": 7, "chat_template_kwargs": {"a": 1}, "stop": ["x"]},
        ),
        ({"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}, {}),
    ],
)
def test_what_each_field_becomes(fields: dict[str, Any], told: dict[str, Any]) -> None:
    assert chat(**fields) == told


def test_numbers_keep_their_text() -> None:
    fields = RESPONSES.read(b'{"model":"m","input":"x","temperature":0.10}').fields
    assert bytes(fields["temperature"]) == b"0.10"


@pytest.mark.parametrize(
    ("fields", "where", "says"),
    [
        ({"model": None}, "model", "missing"),
        ({"input": None}, "input", "missing"),
        ({"input": []}, "input", "at least one"),
        ({"input": 5}, "input", "Expected"),
        ({"input": [None]}, "input[0]", "not null"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0]", "call_id"),
        ({"instructions": ["x"]}, "instructions", "must be a string"),
        ({"max_output_tokens": 0}, "max_output_tokens", "at least 1"),
        ({"background": True}, "background", "service"),
        ({"conversation": "conv_1"}, "conversation", "service"),
        ({"prompt": {"id": "p"}}, "prompt", "service"),
        ({"max_tokens": 5}, "max_tokens", "max_output_tokens"),
        ({"response_format": {"type": "json_object"}}, "response_format", "text.format"),
        ({"n": 2}, "n", "one response"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type", "cannot be translated"),
        ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format.schema", "required"),
        ({"tools": "x"}, "tools", "Expected"),
        ({"stream": "yes"}, "stream", "true or false"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "not found"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(fields: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read(**fields)
    assert caught.value.error.param == where
    assert says in caught.value.error.message


def test_an_overflow_is_told_by_its_code() -> None:
    said = "This model's maximum context length is 10 tokens. However, your prompt contains 11 input tokens"
    told = json.loads(RESPONSES.error_body(400, Error(said, type="BadRequestError", code=400)))["error"]
    assert told == {
        "message": said,
        "type": "invalid_request_error",
        "param": "input",
        "code": "context_length_exceeded",
    }
