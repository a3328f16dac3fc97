"""Tool calls in pieces, as the engines cut them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from adapters.rules import Odd
from adapters.schema import ToolCall
from adapters.tools import ToolCalls, tool_calls


def call(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**fields, "function": function} if function else fields


def merged(*chunks: list[dict[str, Any]]) -> list[tuple[str | None, str | None, str | None]]:
    calls = ToolCalls()
    for chunk in chunks:
        calls.add(Raw(json.dumps(chunk).encode()))
    return [(one.id, one.name, one.arguments) for one in tool_calls(calls.json())]


def test_pieces_with_one_index_are_one_call() -> None:
    assert merged(
        [call("get_weather", index=0, id="a", type="function")],
        [call(arguments='{"city":', index=0)],
        [call(arguments='"Oslo"}', index=0)],
    ) == [("a", "get_weather", '{"city":"Oslo"}')]


def test_parallel_calls_interleave() -> None:
    assert merged(
        [call("f", index=0, id="a"), call("g", index=1, id="b")],
        [call(arguments="1", index=1)],
        [call(arguments="0", index=0)],
        [call(arguments="1", index=1)],
    ) == [("a", "f", "0"), ("b", "g", "11")]


def test_a_name_that_each_piece_repeats_is_taken_once() -> None:
    assert merged([call("f", "{", index=0, id="a")], [call("f", "}", index=0, id="a")]) == [("a", "f", "{}")]


def test_a_name_in_parts_is_joined() -> None:
    assert merged([call("get_", index=0, id="a")], [call("weather", index=0)]) == [("a", "get_weather", "")]


def test_without_an_index_the_id_tells_calls_apart() -> None:
    assert merged(
        [call("f", "{", id="a")],
        [call(arguments="}")],
        [call("g", "[", id="b")],
        [call(arguments="-", id="a")],
        [call(arguments="]")],
    ) == [("a", "f", "{}-"), ("b", "g", "[]")]


def test_without_index_and_id_a_name_begins_a_call() -> None:
    assert merged([call("f", "{}")], [call("f", "{}")]) == [(None, "f", "{}"), (None, "f", "{}")]


def test_calls_that_a_server_all_counts_as_0_stay_apart_by_id() -> None:
    assert merged(
        [call("f", "{}", index=0, id="a")], [call("g", "{", index=0, id="b")], [call(arguments="}", index=0)]
    ) == [
        ("a", "f", "{}"),
        ("b", "g", "{}"),
    ]


def test_arguments_keep_their_text() -> None:
    assert merged([call("f", '{"a": 1.0,  "b":"\\u00e9"}', index=0)]) == [(None, "f", '{"a": 1.0,  "b":"\\u00e9"}')]


def test_arguments_that_are_an_object_are_its_text() -> None:
    whole = Raw(b'[{"id":"a","function":{"name":"f","arguments":{"x": 1.0}}}]')
    assert tool_calls(whole) == (ToolCall("a", "f", '{"x": 1.0}'),)


@pytest.mark.parametrize("nonsense", [b"5", b'"x"', b"[5]", b'[{"index":"0"}]', b'[{"function":{"name":5}}]'])
def test_what_is_no_tool_call_is_odd(nonsense: bytes) -> None:
    with pytest.raises(Odd, match="not tool calls"):
        ToolCalls().add(Raw(nonsense))
