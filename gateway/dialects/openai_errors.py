"""Errors in the shape that OpenAI's clients parse: one nested object, always the same four keys."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from adapters.overflow import Overflow, overflow_of
from adapters.schema import Error

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}

# How OpenAI's own begins, which LiteLLM and others search for.
_SENTENCE = "This model's maximum context length is"


def error_object(error: Error, default_type: str = "api_error") -> bytes:
    return msgspec.json.encode(
        {
            "error": {
                "message": error.message,
                "type": error.type or default_type,
                "param": error.param,
                "code": error.code,
            }
        }
    )


def error_body(status: int, error: Error) -> bytes:
    return error_object(error, _TYPES.get(status, "api_error"))


def refusal_body(status: int, error: Error, param: str) -> bytes:
    """Of a call; `param` is the field that holds the prompt. A limit of rate may be told in a context's words."""
    return error_body(status, told(error, param) if status != 429 else error)


def error_event(error: Error, param: str) -> bytes:
    """A stream's last event. No `[DONE]` follows: that would be a clean end."""
    return b"data: " + error_object(told(error, param)) + b"\n\n"


def told(error: Error, param: str) -> Error:
    """A context that is too short as OpenAI tells it: agents look for the code, or for its sentence."""
    overflow = overflow_of(error)
    if overflow is None:
        return error
    message = error.message if _SENTENCE in error.message else _too_long(overflow, error, param)
    return replace(error, message=message, type="invalid_request_error", param=param, code="context_length_exceeded")


def _too_long(overflow: Overflow, error: Error, param: str) -> str:
    prompt, limit = overflow.prompt, overflow.limit
    if prompt is None or limit is None:
        return f"{_SENTENCE} too short for this request: {error.message}"
    if overflow.by_answer:
        return (
            f"{_SENTENCE} {limit} tokens. However, you requested {prompt + (overflow.answer or 0)} tokens ({prompt} in "
            f"the {param}, {overflow.answer} in the completion). Please reduce the length of the {param} or completion."
        )
    # Some engines count no further than the first token too many, and some need room for one token more.
    return (
        f"{_SENTENCE} {limit} tokens. However, your {param} resulted in {max(prompt, limit + 1)} tokens. "
        f"Please reduce the length of the {param}."
    )
