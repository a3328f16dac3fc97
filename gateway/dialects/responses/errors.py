"""Errors in the shape that clients of OpenAI's Responses parse: as a status, and in a stream."""

from __future__ import annotations

from dataclasses import replace

from adapters.schema import Error
from gateway.dialects import openai_errors
from gateway.dialects.overflow import overflow_of

# What a failed response says of itself is one of a few words.
_CODES = {
    429: "rate_limit_exceeded",
    "rate_limit_exceeded": "rate_limit_exceeded",
    "context_length_exceeded": "context_length_exceeded",
}


def error_body(status: int, error: Error) -> bytes:
    return openai_errors.error_body(status, told(error) if status != 429 else error)


def told(error: Error) -> Error:
    """A context that is too short has a code, which agents summarise at."""
    if overflow_of(error) is None:
        return error
    return replace(error, type="invalid_request_error", param="input", code="context_length_exceeded")


def code_of(error: Error) -> str:
    return _CODES.get(error.code or "", "server_error")
