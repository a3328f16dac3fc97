"""The legacy completions dialect: prompts in all their forms, and a whole answer as a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.answer import Outcome
from adapters.schema import Completion, Verdict
from adapters.token_ids import TokenIds
from gateway.dialects.completions import CompletionsDialect
from gateway.dialects.dialect import BadRequest

COMPLETIONS = CompletionsDialect()


def read(**fields: Any) -> Any:
    return COMPLETIONS.read(json.dumps({"model": "m", **fields}).encode())


@pytest.mark.parametrize(
    ("prompt", "prompts", "ids"),
    [
        ("Hello", 1, None),
        (["Hello", "World"], 2, None),
        ([1, 2, 3], 1, (TokenIds([1, 2, 3]),)),
        ([[1, 2], [3]], 2, (TokenIds([1, 2]), TokenIds([3]))),
    ],
)
def test_a_prompt_is_text_or_ids_one_or_several(prompt: Any, prompts: int, ids: tuple[TokenIds, ...] | None) -> None:
    request = read(prompt=prompt, n=2)
    assert (request.prompts, request.prompt_token_ids, request.expected_choices) == (prompts, ids, prompts * 2)


def test_white_space_in_a_prompt_list_is_only_white_space() -> None:
    request = COMPLETIONS.read(b'{"prompt": [ [ 1 , 2 ],\n [3] ]}')
    assert request.prompt_token_ids == (TokenIds([1, 2]), TokenIds([3]))


@pytest.mark.parametrize("prompt", [7, {"a": 1}, [1, "x"], ["x", 1], [-1], [1.5], [None], [[1], "x"], True])
def test_a_prompt_of_another_kind_is_refused(prompt: Any) -> None:
    with pytest.raises(BadRequest, match="`prompt` must be a string, a list of strings"):
        read(prompt=prompt)


def test_a_missing_prompt_is_refused_unless_embeddings_stand_for_it() -> None:
    with pytest.raises(BadRequest, match="`prompt` is missing"):
        read()
    assert read(prompt_embeds="AAAA").prompts == 1


def test_zero_logprobs_are_asked_for() -> None:
    assert read(prompt="x", logprobs=0).logprobs
    assert not read(prompt="x", logprobs=None).logprobs


def test_a_whole_answer_streams_a_chunk_a_choice() -> None:
    choices = [
        {"index": index, "text": text, "logprobs": None, "finish_reason": "stop"}
        for index, text in enumerate(["Hi.", "Ho."])
    ]
    body = json.dumps({"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": choices})
    outcome = Outcome(Completion(), Verdict("none", None, "none", None), body.encode(), finished=True)
    stream = COMPLETIONS.responder(read(prompt="x", n=2, stream=True), "t").streamed(outcome)
    *events, done, _ = stream.split(b"\n\n")
    assert done == b"data: [DONE]"
    assert [json.loads(event.removeprefix(b"data: "))["choices"] for event in events] == [[c] for c in choices]
