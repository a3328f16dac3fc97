"""A context that is too short, as OpenAI's clients are told of it."""

from __future__ import annotations

import json

import pytest

from adapters.overflow import overflow_of
from adapters.schema import Error
from gateway.dialects.openai_errors import error_body, error_event, refusal_body, told

IS = "This model's maximum context length is"

# What is OpenAI's already stays: vLLM's. Then SGLang's two, llama.cpp's, and a prompt that leaves no room for one more.
VLLM = f"{IS} 2048 tokens. However, your prompt contains at least 2049 input tokens, which exceeds this limit."
SENTENCES = {
    VLLM: VLLM,
    "The input (6009 tokens) is longer than the model's context length (2048 tokens).": (
        f"{IS} 2048 tokens. However, your messages resulted in 6009 tokens. Please reduce the length of the messages."
    ),
    (
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of "
        "5000 tokens: 1000 tokens from the input messages and 4000 tokens for the completion."
    ): (
        f"{IS} 4096 tokens. However, you requested 5000 tokens (1000 in the messages, 4000 in the completion). "
        "Please reduce the length of the messages or completion."
    ),
    "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it": (
        f"{IS} 4096 tokens. However, your messages resulted in 5000 tokens. Please reduce the length of the messages."
    ),
    "The input (2048 tokens) is longer than the model's context length (2048 tokens).": (
        f"{IS} 2048 tokens. However, your messages resulted in 2049 tokens. Please reduce the length of the messages."
    ),
    # No number is made up.
    "the request exceeds the available context size.": (
        f"{IS} too short for this request: the request exceeds the available context size."
    ),
}


@pytest.mark.parametrize(("engines", "openais"), SENTENCES.items())
def test_an_engines_sentence_becomes_openais_with_the_code_that_agents_look_for(engines: str, openais: str) -> None:
    """docs/promises.md C3."""
    error = told(Error(engines, type="BadRequestError", code=400), "messages")
    assert error == Error(openais, type="invalid_request_error", param="messages", code="context_length_exceeded")
    # Another gateway before this one reads the same out of it.
    assert overflow_of(error) is not None


def test_the_sentence_names_the_field_that_the_dialect_has_its_prompt_in() -> None:
    error = told(Error("prompt is too long: 9 tokens > 8 maximum"), "input")
    assert (
        error.message
        == f"{IS} 8 tokens. However, your input resulted in 9 tokens. Please reduce the length of the input."
    )


def test_other_errors_are_told_as_they_are() -> None:
    error = Error("temperature must be at most 2", type="BadRequestError", param="temperature", code=400)
    assert refusal_body(400, error, "messages") == error_body(400, error)
    assert json.loads(error_event(error, "messages").removeprefix(b"data: "))["error"] == {
        "message": "temperature must be at most 2",
        "type": "BadRequestError",
        "param": "temperature",
        "code": 400,
    }


def test_a_limit_of_rate_is_no_context_whatever_its_words() -> None:
    error = Error("Too many tokens: the maximum context length of your tier is 8000 tokens a minute.")
    assert refusal_body(429, error, "messages") == error_body(429, error)
