"""Tools of a Responses request as functions of a chat, and the choice between them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.dialect import BadRequest
from gateway.dialects.responses.custom import arguments_of, input_of
from gateway.dialects.responses.dialect import ResponsesDialect

F = {"type": "function", "name": "f", "description": "Does.", "parameters": {"type": "object"}, "strict": False}
G = {"type": "function", "name": "g", "parameters": None}
C = {"type": "custom", "name": "c", "description": "Change."}
N = {"type": "namespace", "name": "n", "description": "Some.", "tools": [G, C]}


def chat(tools: list[Any], choice: Any = None) -> dict[str, Any]:
    body = {"model": "m", "input": "x", "tools": tools, "tool_choice": choice}
    fields = ResponsesDialect().read(json.dumps(body).encode()).fields
    return {name: json.loads(bytes(raw)) for name, raw in fields.items()}


def names(tools: list[Any], choice: Any = None) -> list[str]:
    return [tool["function"]["name"] for tool in chat(tools, choice)["tools"]]


def test_a_function_is_one_of_the_chat() -> None:
    function = {"name": "f", "description": "Does.", "parameters": {"type": "object"}, "strict": False}
    assert chat([F])["tools"] == [{"type": "function", "function": function}]
    assert chat([G])["tools"] == [{"type": "function", "function": {"name": "g"}}]


def test_a_custom_tool_is_a_function_of_one_string_and_its_grammar_is_told_in_words() -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": "start: X"}
    (tool,) = chat([{**C, "format": form}])["tools"]
    assert tool["function"]["parameters"]["properties"] == {"input": {"type": "string"}}
    assert tool["function"]["description"] == "Change.\n\nThe input has this lark grammar:\nstart: X"
    assert chat([{**C, "format": {"type": "text"}}])["tools"][0]["function"]["description"] == "Change."


def test_tools_of_a_namespace_have_its_name_before_theirs() -> None:
    assert names([F, N]) == ["f", "n__g", "n__c"]


@pytest.mark.parametrize(
    ("choice", "told", "offers"),
    [
        ("none", "none", ["f", "c"]),
        ("required", "required", ["f", "c"]),
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}, ["f", "c"]),
        ({"type": "custom", "name": "c"}, {"type": "function", "function": {"name": "c"}}, ["f", "c"]),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "c"}]},
            "required",
            ["c"],
        ),
    ],
)
def test_a_choice_of_tools_is_said_in_the_words_of_a_chat(choice: Any, told: Any, offers: list[str]) -> None:
    assert chat([F, C], choice)["tool_choice"] == told
    assert names([F, C], choice) == offers


@pytest.mark.parametrize(
    ("tools", "choice", "where"),
    [
        ([{"type": kind}], None, "tools[0].type")
        for kind in ("web_search", "file_search", "code_interpreter", "computer_use_preview", "image_generation", "mcp")
    ]
    + [
        ([F, F], None, "tools[1].name"),
        ([{"type": "function"}], None, "tools[0].name"),
        ([{**F, "parameters": [1]}], None, "tools[0].parameters"),
        ([{**C, "format": 5}], None, "tools[0].format"),
        ([{**N, "tools": [N]}], None, "tools[0].tools[0].type"),
        ([F], {"type": "function", "name": "x"}, "tool_choice.name"),
        ([F], {"type": "file_search"}, "tool_choice.type"),
        ([F], {"type": "allowed_tools", "tools": []}, "tool_choice.tools"),
        ([F], "some", "tool_choice"),
    ],
)
def test_what_the_backends_do_not_have_is_refused_by_name(tools: list[Any], choice: Any, where: str) -> None:
    with pytest.raises(BadRequest) as caught:
        chat(tools, choice)
    assert caught.value.error.param == where


@pytest.mark.parametrize(("asked", "sent"), [(False, False), (True, None), (None, None)])
def test_one_call_at_a_time_is_said_and_several_are_every_servers_own(asked: bool | None, sent: bool | None) -> None:
    body = json.dumps({"model": "m", "input": "x", "tools": [F], "parallel_tool_calls": asked}).encode()
    told = ResponsesDialect().read(body).fields.get("parallel_tool_calls")
    assert (None if told is None else json.loads(bytes(told))) is sent


@pytest.mark.parametrize("text", ["", "+a = 1\n", '"\\', "é 👋"])
def test_a_custom_tools_input_comes_back_as_it_was(text: str) -> None:
    assert input_of(arguments_of(text)) == text
    assert json.loads(arguments_of(text)) == {"input": text}


@pytest.mark.parametrize("arguments", ["", "*** Begin", '{"input": 5}', '{"a": "b"}', '{"input":"a","b":1}'])
def test_arguments_that_are_no_custom_input_are_given_as_they_came(arguments: str) -> None:
    assert input_of(arguments) == arguments
