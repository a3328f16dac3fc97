"""One reading of folded streams and whole answers: places, pairs, and what a lying engine cannot get past."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.openai_shape import Shape, open_answer
from adapters.places import Place, Source
from adapters.read import read_answer, read_usage
from adapters.schema import Completion, Usage
from adapters.token_ids import TokenIds
from tests.adapters.cases import bare_plan

CONTENT = ("logprobs", "content")
SHAPE = Shape(
    sources=(
        Source(
            Place("root", ("engine", "ids"), by_choice=True), (Place("root", ("engine", "logprobs"), by_choice=True),)
        ),
        Source(Place("choice", ("token_ids",)), (Place("choice", CONTENT, column="logprob"),)),
        Source(Place("choice", ("rows",), column=1), (Place("choice", ("rows",), column=0),)),
        Source(Place("choice", CONTENT, column="id"), (Place("choice", CONTENT, column="logprob"),)),
        Source(Place("choice", CONTENT, column="token", texts=True), (Place("choice", CONTENT, column="logprob"),)),
        Source(Place("choice", ("token_ids",)), (Place("choice", ("logprobs", "token_logprobs")),)),
    ),
    prompt=(Place("root", ("prompt_ids",)), Place("choice", ("prompt_ids",))),
)


def read(answer: dict[str, Any], *, endpoint: str = "chat", **body: Any) -> Completion:
    plan = bare_plan("vllm", body, endpoint=endpoint, mode="whole")
    opened = open_answer(json.dumps(answer).encode(), plan.request.expected_choices)
    return read_answer(opened, plan, SHAPE, "processed")


def entries(*logprobs: float | None, **more: list[Any]) -> dict[str, Any]:
    rows = [{"token": "x", "logprob": value} for value in logprobs]
    for name, values in more.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    return {"content": rows}


def only(completion: Completion) -> tuple[Any, Any]:
    (choice,) = completion.choices
    return (None if choice.token_ids is None else choice.token_ids.tolist()), choice.logprobs


@pytest.mark.parametrize(
    ("choice", "root", "source"),
    [
        ({"token_ids": [7, 8], "logprobs": entries(-1.0, -2.0)}, {}, "choices[].token_ids"),
        ({"rows": [[-1.0, 7, None], [-2, 8, "x"]]}, {}, "choices[].rows[][1]"),
        ({"logprobs": entries(-1.0, -2.0, id=[7, 8])}, {}, "choices[].logprobs.content[].id"),
        (
            {"logprobs": entries(-1.0, -2.0, token=["token_id:7", "token_id:8"])},
            {},
            "choices[].logprobs.content[].token",
        ),
        ({}, {"engine": {"ids": [[7, 8]], "logprobs": [[-1.0, -2.0]]}}, "engine.ids[]"),
        ({"token_ids": [7, 8], "logprobs": {"token_logprobs": [-1.0, -2.0]}}, {}, "choices[].token_ids"),
    ],
)
def test_ids_and_logprobs_are_found_where_the_engine_puts_them(
    choice: dict[str, Any], root: dict[str, Any], source: str
) -> None:
    completion = read({**root, "choices": [{"index": 0, "message": {}, **choice}]})
    assert only(completion) == ([7, 8], (-1.0, -2.0))
    assert completion.source == source
    assert completion.logprobs_mode == "processed"
    assert completion.anomalies == ()


def test_ids_that_are_told_twice_are_taken_once() -> None:
    choice = {"index": 0, "token_ids": [7, 8], "logprobs": entries(-1.0, -2.0, id=[7, 8])}
    completion = read({"engine": {"ids": [[7, 8]]}, "choices": [choice]})
    assert only(completion) == ([7, 8], (-1.0, -2.0))
    assert completion.source == "engine.ids[]"
    assert completion.anomalies == ()


def test_ids_that_are_told_twice_and_differ_are_odd_and_their_logprobs_are_not_mixed() -> None:
    completion = read(
        {"engine": {"ids": [[7, 9]]}, "choices": [{"index": 0, "token_ids": [7, 8], "logprobs": entries(-1.0, -2.0)}]}
    )
    assert only(completion) == ([7, 9], None)
    assert completion.anomalies == ("choice 0: engine.ids[] and choices[].token_ids differ (2 ids and 2)",)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_logprobs_that_are_more_or_fewer_than_ids_are_never_paired(count: int) -> None:
    completion = read({"choices": [{"index": 0, "token_ids": [7, 8], "logprobs": entries(*[-1.0] * count)}]})
    assert only(completion) == ([7, 8], None)
    assert completion.logprobs_reason == f"choice 0 has {count} logprobs for 2 token ids"
    assert completion.logprobs_mode is None


def test_null_and_sentinels_stay_in_their_places_as_null() -> None:
    completion = read({"choices": [{"index": 0, "token_ids": [7, 8, 9], "logprobs": entries(None, -9999.0, -3.0)}]})
    assert only(completion) == ([7, 8, 9], (None, None, -3.0))


@pytest.mark.parametrize("value", ["-1.0", True, [1], {}, 1e300 * 1e10 if False else 10**400])
def test_what_is_no_logprob_is_never_taken_for_one(value: Any) -> None:
    completion = read({"choices": [{"index": 0, "token_ids": [7, 8], "logprobs": entries(-1.0, value)}]})
    assert only(completion)[1] is None
    assert completion.logprobs_reason is not None or completion.anomalies


def test_text_that_only_looks_like_an_id_is_none() -> None:
    choice = {"index": 0, "token_ids": [7, 8], "logprobs": entries(-1.0, -2.0, token=["token_id:7", "Hello"])}
    completion = read({"choices": [choice]})
    assert only(completion) == ([7, 8], (-1.0, -2.0))
    assert completion.anomalies == ()


def test_lists_by_choice_go_by_the_choices_index() -> None:
    choices = [{"index": 1, "message": {}}, {"index": 0, "message": {}}]
    completion = read({"engine": {"ids": [[10], [11]]}, "choices": choices}, n=2)
    assert [(one.index, one.token_ids) for one in completion.choices] == [(0, TokenIds([10])), (1, TokenIds([11]))]
    completion = read({"engine": {"ids": [[10], [11]]}, "choices": choices[:1]}, n=2)
    assert [(one.index, one.token_ids) for one in completion.choices] == [(1, TokenIds([11]))]


def test_echoed_prompts_are_left_out_of_the_logprobs_only_where_the_numbers_say_so() -> None:
    logprobs = {"token_logprobs": [None, -0.9, -0.5]}
    answer = {"choices": [{"index": 0, "text": "x", "token_ids": [7], "logprobs": logprobs, "prompt_ids": [1, 2]}]}
    assert only(read(answer, endpoint="completions", echo=True)) == ([7], (-0.5,))
    assert only(read(answer, endpoint="completions")) == ([7], None)
    answer["choices"][0]["prompt_ids"] = [1, 2, 3]
    assert only(read(answer, endpoint="completions", echo=True)) == ([7], None)


def test_a_prompt_sent_as_ids_is_known_without_the_engines_word() -> None:
    completion = read({"choices": [{"index": 0, "text": "x"}]}, endpoint="completions", prompt=[1, 2])
    assert completion.prompt_token_ids == TokenIds([1, 2])
    completion = read({"choices": [{"index": 0, "prompt_ids": [1, 2, 3]}]}, endpoint="completions", prompt=[1, 2])
    assert completion.prompt_token_ids == TokenIds([1, 2, 3])


def test_prompts_sent_together_belong_to_their_choices() -> None:
    answer = {"choices": [{"index": index, "text": "x"} for index in range(4)]}
    completion = read(answer, endpoint="completions", prompt=[[1], [2, 3]], n=2)
    assert completion.prompt_token_ids is None
    assert [one.prompt_token_ids for one in completion.choices] == [TokenIds(ids) for ids in ([1], [1], [2, 3], [2, 3])]


def test_choices_of_one_prompt_that_tell_different_prompts_are_odd() -> None:
    answer = {"choices": [{"index": 0, "prompt_ids": [1]}, {"index": 1, "prompt_ids": [2]}]}
    assert read(answer, endpoint="completions", n=2).anomalies == (
        "the choices of one prompt tell different prompt ids",
    )


@pytest.mark.parametrize(
    ("choices", "anomaly"),
    [
        ([{"index": 0}, {"index": 0}], "choice 0 stands twice"),
        ([{"index": -1}], "a choice without a valid index"),
        ([{"index": 5}], "choice 5 was not asked for (1 were)"),
        ("x", "choices is not a list of objects"),
        ([{"index": 0, "message": 5}], "a message is not an object"),
        ([{"index": 0, "weight_versions": [{"version": "a"}]}], "weight versions that cannot be read"),
        ([{"index": 0, "message": {"tool_calls": 5}}], "tool calls that cannot be read"),
    ],
)
def test_what_a_whole_answer_says_oddly_is_told(choices: Any, anomaly: str) -> None:
    assert any(told.startswith(anomaly) for told in read({"choices": choices}).anomalies)


def test_choices_without_an_index_are_counted_in_their_order() -> None:
    assert [choice.index for choice in read({"choices": [{"text": "a"}, {"text": "b"}]}, n=2).choices] == [0, 1]


def test_a_message_without_content_says_nothing_and_an_answer_without_text_has_none() -> None:
    (choice,) = read({"choices": [{"index": 0, "message": {"content": None}}]}).choices
    assert choice.text == ""
    (choice,) = read({"choices": [{"index": 0, "token_ids": [1]}]}).choices
    assert choice.text is None
    (choice,) = read({"choices": [{"index": 0, "message": {"content": [{"type": "text", "text": "a"}]}}]}).choices
    assert choice.text == "a"


@pytest.mark.parametrize("message", [{"reasoning": "Hm", "reasoning_content": "Hm"}, {"reasoning_content": "Hm"}])
def test_reasoning_goes_by_two_names(message: dict[str, str]) -> None:
    assert read({"choices": [{"index": 0, "message": message}]}).choices[0].reasoning == "Hm"


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}, Usage(1, 2, 3)),
        ({"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}}, Usage(1, cached_tokens=1)),
        ({"completion_tokens_details": {"reasoning_tokens": 4}, "reasoning_tokens": 9}, Usage(reasoning_tokens=4)),
        ({"reasoning_tokens": 9, "prompt_tokens_details": None}, Usage(reasoning_tokens=9)),
        ({"prompt_tokens": "1", "completion_tokens": -2, "total_tokens": 3.0}, Usage()),
    ],
)
def test_usage_is_what_the_engine_counted_and_nothing_else(told: Any, usage: Usage) -> None:
    answer = open_answer(json.dumps({"usage": told}).encode(), 1)
    assert read_usage(answer.root["usage"]) == usage


def test_usage_that_is_none_is_not_told() -> None:
    for nothing in (b'{"usage":null}', b'{"usage":5}', b"{}"):
        assert read_usage(open_answer(nothing, 1).root.get("usage")) is None
