"""Pieces of an answer, in whatever order an engine gives them, as blocks that a client takes one at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from adapters.answer_shape import Delta, ToolFragment
from gateway.dialects import thought
from gateway.dialects.messages.blocks import PING, BlockWriter, ThinkingShown


def told(events: Iterable[bytes]) -> list[str]:
    """Each event in a word or two: `0+text`, `0 "Hi"`, `0.`, the ping left out."""
    short: list[str] = []
    for raw in events:
        if raw == PING:
            continue
        name, data = raw.removesuffix(b"\n\n").split(b"\n")
        body = json.loads(data.removeprefix(b"data: "))
        assert name == b"event: " + body["type"].encode()
        index = body["index"]
        match body["type"]:
            case "content_block_start":
                block = body["content_block"]
                short.append(f"{index}+{block['type']}" + (f" {block['name']}" if "name" in block else ""))
            case "content_block_delta":
                kind, value = body["delta"].items()
                short.append(f"{index} {value[1]}")
                assert kind == ("type", {"signature": "signature_delta"}.get(value[0], body["delta"]["type"]))
            case "content_block_stop":
                short.append(f"{index}.")
    return short


def written(*deltas: Delta, thinking: ThinkingShown = "shown") -> list[list[str]]:
    """What goes out at each delta, and at the end."""
    writer = BlockWriter(thinking)
    return [told(writer.add(delta)) for delta in deltas] + [told(writer.close())]


def text(words: str) -> Delta:
    return Delta(0, text=words)


def thinks(words: str) -> Delta:
    return Delta(0, reasoning=words)


def call(position: int, arguments: str | None, *, name: str | None = None, call_id: str | None = None) -> Delta:
    return Delta(0, tool_calls=(ToolFragment(position, call_id, name, arguments),))


def signature(words: str, *, shown: bool = True) -> str:
    return thought.sign(words, shown=shown)


def test_text_goes_out_as_it_comes() -> None:
    assert written(text("He"), text("llo.")) == [["0+text", "0 He"], ["0 llo."], ["0."]]


def test_the_first_block_is_followed_by_a_ping_and_no_other_is() -> None:
    writer = BlockWriter("shown")
    events = [*writer.add(thinks("Hm.")), *writer.add(text("So.")), *writer.close()]
    assert [at for at, event in enumerate(events) if event == PING] == [1]


def test_an_answer_without_a_word_has_no_block() -> None:
    assert written(Delta(0), Delta(0, text="", reasoning="")) == [[], [], []]


def test_a_thought_ends_with_its_signature() -> None:
    assert written(thinks("H"), thinks("m."), text("So.")) == [
        ["0+thinking", "0 H"],
        ["0 m."],
        [f"0 {signature('Hm.')}", "0.", "1+text", "1 So."],
        ["1."],
    ]


def test_a_thought_that_is_not_to_be_shown_is_signed() -> None:
    assert written(thinks("H"), thinks("m."), text("So."), thinking="signed") == [
        ["0+thinking"],
        [],
        [f"0 {signature('Hm.', shown=False)}", "0.", "1+text", "1 So."],
        ["1."],
    ]


def test_a_thought_that_nobody_asked_for_is_left_out() -> None:
    assert written(thinks("Hm."), text("So."), thinking="hidden") == [[], ["0+text", "0 So."], ["0."]]


def test_one_delta_may_hold_the_end_of_a_thought_and_the_start_of_the_answer() -> None:
    assert written(Delta(0, reasoning="Hm.", text="So.")) == [
        ["0+thinking", "0 Hm.", f"0 {signature('Hm.')}", "0.", "1+text", "1 So."],
        ["1."],
    ]


def test_arguments_go_out_as_they_come_once_the_name_is_whole() -> None:
    assert written(
        text("Look."),
        call(0, "", name="get_", call_id="c1"),
        call(0, None, name="weather"),
        call(0, '{"city'),
        call(0, '":"Paris"}'),
    ) == [
        ["0+text", "0 Look."],
        ["0."],
        [],
        ["1+tool_use get_weather", '1 {"city'],
        ['1 ":"Paris"}'],
        ["1."],
    ]


def test_calls_one_after_the_other_go_out_one_after_the_other() -> None:
    assert written(
        call(0, '{"a":1}', name="f", call_id="c1"),
        call(1, None, name="g", call_id="c2"),
        call(1, '{"b"'),
        call(1, ":2}"),
    ) == [["0+tool_use f", '0 {"a":1}'], ["0."], ["1+tool_use g", '1 {"b"'], ["1 :2}"], ["1."]]


def test_pieces_of_several_calls_in_turns_are_put_one_after_the_other() -> None:
    assert written(
        call(0, '{"a"', name="f", call_id="c1"),
        call(1, '{"b"', name="g", call_id="c2"),
        call(0, ":1"),
        call(1, ":2}"),
        call(0, "}"),
    ) == [["0+tool_use f", '0 {"a"'], [], ["0 :1"], [], ["0 }", "0.", "1+tool_use g", '1 {"b":2}'], ["1."]]


def test_text_between_the_pieces_of_a_call_waits_for_its_end() -> None:
    assert written(call(0, '{"a"', name="f", call_id="c1"), text("And "), call(0, ":1}"), text("so on.")) == [
        ["0+tool_use f", '0 {"a"'],
        [],
        ["0 :1}", "0.", "1+text", "1 And "],
        ["1 so on."],
        ["1."],
    ]


def test_a_call_without_arguments_has_an_empty_input() -> None:
    assert written(call(0, "", name="f", call_id="c1"), call(1, "{}", name="g", call_id="c2")) == [
        [],
        [],
        ["0+tool_use f", "0.", "1+tool_use g", "1 {}", "1."],
    ]


def test_calls_whose_engine_counts_them_all_as_the_first_stay_apart() -> None:
    assert written(call(0, "{}", name="f", call_id="c1"), call(0, "{}", name="f", call_id="c2")) == [
        ["0+tool_use f", "0 {}"],
        ["0.", "1+tool_use f", "1 {}"],
        ["1."],
    ]


def test_a_call_that_was_cut_ends_where_it_was_cut() -> None:
    assert written(call(0, '{"a": [1,', name="f", call_id="c1")) == [["0+tool_use f", '0 {"a": [1,'], ["0."]]


def test_what_follows_a_call_that_has_ended_is_not_its_own() -> None:
    assert written(call(0, "{}", name="f", call_id="c1"), text("Done."), call(0, "}")) == [
        ["0+tool_use f", "0 {}"],
        ["0.", "1+text", "1 Done."],
        [],
        ["1."],
    ]


@pytest.mark.parametrize("given", ["functions.f:0", None])
def test_an_id_is_the_engines_own_where_it_gives_one(given: str | None) -> None:
    writer = BlockWriter("shown")
    start = writer.add(call(0, "{}", name="f", call_id=given))[0]
    body: dict[str, Any] = json.loads(start.partition(b"data: ")[2])
    told_id = body["content_block"].pop("id")
    assert told_id == given if given else told_id.startswith("toolu_")
    assert body["content_block"] == {"type": "tool_use", "name": "f", "input": {}}
