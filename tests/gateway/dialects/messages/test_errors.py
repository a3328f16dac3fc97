"""Errors as Anthropic's clients expect them, with the words that they act on."""

from __future__ import annotations

import json

import pytest

from adapters.schema import Error
from gateway.dialects.messages.errors import error_body, error_event

VLLM_TOO_LONG = (
    "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens, "
    "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt."
)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (409, "invalid_request_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_the_type_is_the_status_in_a_word(status: int, kind: str) -> None:
    assert json.loads(error_body(status, Error("No.", type="BadRequestError"))) == {
        "type": "error",
        "error": {"type": kind, "message": "No."},
    }


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Error("It broke.", code="backend_error"), "api_error"),
        (Error("It broke."), "api_error"),
        (Error("Full.", code=429), "rate_limit_error"),
        (Error("Not now.", code="cannot_record"), "overloaded_error"),
        (Error("Too late.", code="backend_timeout"), "timeout_error"),
    ],
)
def test_inside_a_stream_an_error_is_an_event_of_its_own(error: Error, kind: str) -> None:
    name, data, *rest = error_event(error).split(b"\n")
    assert (name, rest) == (b"event: error", [b"", b""])
    body = json.loads(data.removeprefix(b"data: "))
    assert body == {"type": "error", "error": {"type": kind, "message": error.message}}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (VLLM_TOO_LONG, "prompt is too long: 2049 tokens > 2048 maximum"),
        (
            "The input (6009 tokens) is longer than the model's context length (2048 tokens).",
            "prompt is too long: 6009 tokens > 2048 maximum",
        ),
        (
            "The input (2048 tokens) is longer than the model's context length (2048 tokens).",
            "prompt is too long: 2049 tokens > 2048 maximum",
        ),
        (
            (
                "This model's maximum context length is 4096 tokens. However, you requested 4000 "
                "output tokens and your "
                "prompt contains at least 200 input tokens, for a total of at least 4200 tokens."
            ),
            (
                "input length and `max_tokens` exceed context limit: 200 + 4000 > 4096, "
                "decrease input length or `max_tokens` and try again"
            ),
        ),
        ("Input is longer than the model's context length.", "prompt is too long: Input is longer than the model's"),
    ],
)
def test_a_context_that_is_too_short_is_told_in_the_words_that_agents_act_on(said: str, words: str) -> None:
    """docs/promises.md C3."""
    told = json.loads(error_body(400, Error(said, type="BadRequestError", code=400)))["error"]
    assert told["type"] == "invalid_request_error"
    assert told["message"].startswith(words)


def test_a_limit_of_calls_is_no_limit_of_the_context() -> None:
    told = json.loads(error_body(429, Error("Too many tokens: the maximum context length of your plan is used up.")))
    assert told["error"]["type"] == "rate_limit_error"
