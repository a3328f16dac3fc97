"""A context that is too short, in each engine's own sentence."""

from __future__ import annotations

import pytest

from adapters.overflow import Overflow, overflow_of
from adapters.schema import Error

SENTENCES = [
    (
        (
            "This model's maximum context length is 2048 tokens. However, your prompt "
            "contains at least 2049 input tokens, "
            "which exceeds this limit even without any output tokens. (parameter=input_tokens, value=2049)"
        ),
        Overflow(prompt=2049, limit=2048),
    ),
    (
        (
            "This model's maximum context length is 4096 tokens. However, you requested 1000 "
            "output tokens and your prompt "
            "contains 4000 input tokens, for a total of 5000 tokens."
        ),
        Overflow(prompt=4000, answer=1000, limit=4096),
    ),
    (
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5000 "
            "tokens (4000 in the messages, "
            "1000 in the completion). Please reduce the length of the messages or completion."
        ),
        Overflow(prompt=4000, answer=1000, limit=4096),
    ),
    (
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 4000. This model's maximum context length is 4096 "
            "tokens and your request has 200 input tokens (4000 > 4096 - 200)."
        ),
        Overflow(prompt=200, answer=4000, limit=4096),
    ),
    (
        (
            "You passed 4097 input tokens and requested 1000 output tokens. However, the "
            "model's context length is only "
            "4096 tokens, resulting in a maximum input length of 3096 tokens."
        ),
        Overflow(prompt=4097, answer=1000, limit=4096),
    ),
    (
        "The input (6009 tokens) is longer than the model's context length (2048 tokens).",
        Overflow(prompt=6009, limit=2048),
    ),
    (
        (
            "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of "
            "5000 tokens: 4000 tokens from the input messages and 1000 tokens for the "
            "completion. Please reduce the number"
        ),
        Overflow(prompt=4000, answer=1000, limit=4096),
    ),
    (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens.",
        Overflow(prompt=10000, limit=8192),
    ),
    (
        "the request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        Overflow(prompt=5000, limit=4096),
    ),
    ("the request exceeds the available context size. try increasing the context size", Overflow()),
]


@pytest.mark.parametrize(("sentence", "overflow"), SENTENCES)
def test_each_engines_sentence_is_understood(sentence: str, overflow: Overflow) -> None:
    assert overflow_of(Error(sentence)) == overflow


def test_a_code_alone_suffices() -> None:
    assert overflow_of(Error("Too much.", code="context_length_exceeded")) == Overflow()


@pytest.mark.parametrize(
    "sentence", ["max_tokens must be at least 1, got 0.", "The model `m` does not exist.", "Too many requests."]
)
def test_other_refusals_are_something_else(sentence: str) -> None:
    assert overflow_of(Error(sentence)) is None


def test_an_answer_that_is_too_long_for_a_prompt_that_fits_is_told_apart() -> None:
    assert Overflow(prompt=200, answer=4000, limit=4096).by_answer
    assert not Overflow(prompt=5000, answer=4000, limit=4096).by_answer
    assert not Overflow(prompt=5000, limit=4096).by_answer
