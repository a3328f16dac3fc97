"""Errors in the shape that clients of OpenAI's Responses parse: as a status, and in a stream."""

from __future__ import annotations

from adapters.schema import Error
from gateway.dialects import openai_errors

# What a failed response says of itself is one of a few words.
_CODES = {
    429: "rate_limit_exceeded",
    "rate_limit_exceeded": "rate_limit_exceeded",
    "context_length_exceeded": "context_length_exceeded",
}


def error_body(status: int, error: Error) -> bytes:
    return openai_errors.refusal_body(status, error, "input")


def told(error: Error) -> Error:
    """A context that is too short has a code, which agents summarise at."""
    return openai_errors.told(error, "input")


def code_of(error: Error) -> str:
    return _CODES.get(error.code or "", "server_error")
