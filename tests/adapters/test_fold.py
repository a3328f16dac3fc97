"""Chunks fold into the shape of a whole answer, whatever order, gaps and nonsense they come with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.answer_shape import WholeAnswer
from adapters.fold import OPENAI_RULES, Fold, rules_with
from adapters.openai_shape import open_chunk
from adapters.raw import NotJSON
from adapters.rules import First, Joined, Last, members

RULES = rules_with(
    root={"prompt_token_ids": First, "nvext": members({"completion_token_ids": Joined})},
    choice={"token_ids": Joined, "prompt_token_ids": First},
)


def folded(*chunks: Any, expected: int = 1) -> WholeAnswer:
    fold = Fold(RULES, expected)
    for chunk in chunks:
        data = chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode()
        fold.add(open_chunk(data, expected))
    return fold.answer()


def choices(answer: WholeAnswer) -> Any:
    return json.loads(bytes(answer.root["choices"]))


def delta(index: Any = 0, /, finish_reason: str | None = None, *, said: Any = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": said or {}, "finish_reason": finish_reason, **fields}]}


def test_text_reasoning_and_refusal_are_joined_and_the_role_is_taken_once() -> None:
    answer = folded(
        delta(said={"role": "assistant", "content": ""}),
        delta(said={"role": "assistant", "reasoning": "Hm"}),
        delta(said={"reasoning": "m."}),
        delta(said={"content": "Hel", "refusal": None}),
        delta(said={"content": "lo"}),
        delta(finish_reason="stop"),
    )
    assert choices(answer) == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello", "reasoning": "Hmm."},
            "finish_reason": "stop",
        }
    ]
    assert answer.anomalies == ()


def test_half_a_surrogate_pair_costs_a_character_and_no_ids() -> None:
    answer = folded(b'{"choices":[{"index":0,"delta":{"content":"a\\ud83d"},"token_ids":[7]}]}')
    assert answer.anomalies == ("a chunk was not strict JSON",)
    assert choices(answer)[0]["token_ids"] == [7]
    assert choices(answer)[0]["message"]["content"] == "a?"


def test_nan_costs_a_number_and_no_ids() -> None:
    answer = folded(b'{"choices":[{"index":0,"delta":{},"token_ids":[7],"logprobs":{"content":[{"logprob":NaN}]}}]}')
    assert answer.anomalies == ("a chunk was not strict JSON",)
    assert choices(answer)[0]["token_ids"] == [7]
    assert choices(answer)[0]["logprobs"] == {"content": [{"logprob": None}]}


def test_numbers_keep_their_text() -> None:
    answer = folded(b'{"created":1.0,"choices":[{"index":0,"token_ids":[7],"x":-0.00006937739817658439}]}')
    assert bytes(answer.choices[0]["x"]) == b"-0.00006937739817658439"
    assert bytes(answer.root["created"]) == b"1.0"


def test_interleaved_choices_stay_apart() -> None:
    answer = folded(
        delta(1, said={"content": "B"}, token_ids=[33]),
        delta(0, said={"content": "A"}, token_ids=[32]),
        {
            "choices": [
                {"index": 0, "delta": {"content": "."}, "token_ids": [13]},
                {"index": 1, "delta": {}, "token_ids": [99], "finish_reason": "stop"},
            ]
        },
        delta(0, "stop", token_ids=[99]),
        expected=2,
    )
    assert [(c["message"]["content"], c["token_ids"], c["finish_reason"]) for c in choices(answer)] == [
        ("A.", [32, 13, 99], "stop"),
        ("B", [33, 99], "stop"),
    ]


def test_parallel_lists_of_logprobs_are_joined_member_by_member() -> None:
    answer = folded(
        {
            "choices": [
                {"index": 0, "text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": None}}
            ]
        },
        {"choices": [{"index": 0, "text": "b", "logprobs": None}]},
        {"choices": [{"index": 0, "text": "c", "logprobs": {"tokens": ["c"], "token_logprobs": [-1.5]}}]},
    )
    assert choices(answer)[0]["logprobs"] == {"tokens": ["a", "c"], "token_logprobs": [-0.5, -1.5]}
    assert choices(answer)[0]["text"] == "abc"


def test_prompt_ids_told_with_each_choice_are_taken_once() -> None:
    told = {"prompt_token_ids": [1, 2]}
    answer = folded({**delta(0), **told}, {**delta(1), **told}, expected=2)
    assert json.loads(bytes(answer.root["prompt_token_ids"])) == [1, 2]
    assert answer.anomalies == ()


def test_prompt_ids_told_twice_and_differing_are_odd() -> None:
    answer = folded({**delta(0), "prompt_token_ids": [1, 2]}, {**delta(0), "prompt_token_ids": [1, 3]})
    assert answer.anomalies == ("prompt_token_ids: told again and differs",)


def test_nested_objects_fold_by_the_rules_of_their_members() -> None:
    answer = folded(
        {**delta(0), "nvext": {"completion_token_ids": [1], "timing": {"a": 1}}},
        {**delta(0), "nvext": {"completion_token_ids": [2, 3], "timing": {"a": 2}}},
        {**delta(0), "nvext": None},
    )
    assert json.loads(bytes(answer.root["nvext"])) == {"completion_token_ids": [1, 2, 3], "timing": {"a": 2}}


def test_the_last_usage_that_is_not_null_counts() -> None:
    answer = folded(
        {"choices": [], "usage": {"completion_tokens": 1}},
        {"choices": [], "usage": {"completion_tokens": 2}},
        {"choices": [], "usage": None},
    )
    assert json.loads(bytes(answer.root["usage"])) == {"completion_tokens": 2}


def test_a_folded_answer_is_called_what_a_whole_one_is() -> None:
    assert bytes(folded({"object": "chat.completion.chunk", "choices": []}).root["object"]) == b'"chat.completion"'
    assert bytes(folded({"object": "text_completion", "choices": []}).root["object"]) == b'"text_completion"'


def test_content_that_never_came_is_null_where_there_were_tool_calls() -> None:
    called = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}
    answer = folded(delta(said={"role": "assistant", "content": ""}), delta(said=called))
    assert choices(answer)[0]["message"]["content"] is None


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        ({"choices": 5}, "choices is not a list of objects"),
        ({"choices": [1]}, "choices is not a list of objects"),
        ({"choices": [{"index": -1, "delta": {}}]}, "a choice without a valid index"),
        ({"choices": [{"index": "0", "delta": {}}]}, "a choice without a valid index"),
        ({"choices": [{"index": 0.5, "delta": {}}]}, "a choice without a valid index"),
        ({"choices": [{"index": True, "delta": {}}]}, "a choice without a valid index"),
        ({"choices": [{"index": 10**30, "delta": {}}]}, f"choice {10**30} was not asked for (1 were)"),
        ({"choices": [{"index": 3, "delta": {}}]}, "choice 3 was not asked for (1 were)"),
        ({"choices": [{"index": 0}, {"index": 0}]}, "choice 0 stands twice in one chunk"),
        ({"choices": [{"index": 0, "delta": [1]}]}, "choice 0: delta is not an object"),
        ({"choices": [{"index": 0, "delta": {"content": 5}}]}, "choice 0: content: not a string"),
        ({"choices": [{"index": 0, "token_ids": 5}]}, "choice 0: token_ids: not a list"),
        ({"choices": [{"index": 0, "logprobs": []}]}, "choice 0: logprobs: not an object"),
    ],
)
def test_what_cannot_be_folded_is_told_and_the_rest_goes_on(chunk: Any, reason: str) -> None:
    answer = folded(delta(said={"content": "a"}, token_ids=[1]), chunk, delta(said={"content": "b"}, token_ids=[2]))
    assert answer.anomalies == (reason,)
    assert choices(answer)[0]["message"]["content"] == "ab"
    assert choices(answer)[0]["token_ids"] == [1, 2]


def test_an_index_left_out_is_the_only_choice() -> None:
    answer = folded({"choices": [{"delta": {"content": "a"}}]})
    assert choices(answer)[0]["message"]["content"] == "a"
    assert folded({"choices": [{"delta": {}}]}, expected=2).anomalies == ("a choice without a valid index",)


def test_a_flood_of_choices_is_bounded() -> None:
    fold = Fold(OPENAI_RULES, 1)
    for index in range(3000):
        fold.add(open_chunk(json.dumps(delta(index)).encode(), 1))
    assert len(fold.answer().choices) == 1024
    assert len(fold.answer().anomalies) <= 20


def test_it_is_finished_when_each_choice_that_was_asked_for_has_its_end() -> None:
    fold = Fold(OPENAI_RULES, 2)
    for chunk, finished in (
        (delta(0, "stop"), False),
        (delta(0, "stop"), False),
        (delta(1), False),
        (delta(1, "length"), True),
    ):
        fold.add(open_chunk(json.dumps(chunk).encode(), 2))
        assert fold.finished is finished


TEXTS = st.text(max_size=8)
IDS = st.lists(st.integers(0, 200_000), max_size=4)


@given(st.lists(st.tuples(st.integers(0, 2), TEXTS, IDS), max_size=20))
def test_whatever_the_parts_the_sum_is_the_same(parts: list[tuple[int, str, list[int]]]) -> None:
    answer = folded(*(delta(index, said={"content": text}, token_ids=ids) for index, text, ids in parts), expected=3)
    for choice in choices(answer):
        mine = [(text, ids) for index, text, ids in parts if index == choice["index"]]
        assert choice["message"]["content"] == "".join(text for text, _ in mine)
        assert choice["token_ids"] == [one for _, ids in mine for one in ids]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "index",
                    "delta",
                    "content",
                    "token_ids",
                    "logprobs",
                    "finish_reason",
                    "tool_calls",
                    "usage",
                    "text",
                ]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.lists(JSON_VALUES | st.dictionaries(st.just("choices"), st.lists(JSON_VALUES, max_size=3)), max_size=5))
def test_no_chunk_is_too_strange(chunks: list[Any]) -> None:
    fold = Fold(RULES, 1)
    for chunk in chunks:
        try:
            fold.add(open_chunk(json.dumps(chunk).encode(), 1))
        except NotJSON:
            assert not isinstance(chunk, dict)
    answer = fold.answer()
    assert len(json.loads(bytes(answer.root["choices"]))) == len(answer.choices)


def test_rules_without_a_table_keep_the_last_value_that_is_not_null() -> None:
    assert isinstance(Last(), Last)
    answer = folded({"x": 1}, {"x": 2}, {"x": None})
    assert bytes(answer.root["x"]) == b"2"
