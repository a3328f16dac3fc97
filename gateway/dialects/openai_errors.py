"""Errors in the shape that OpenAI's clients parse: one nested object, always the same four keys."""

from __future__ import annotations

import msgspec

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


def error_event(error: Error) -> bytes:
    """A stream's last event. No `[DONE]` follows: that would be a clean end."""
    return b"data: " + error_object(error) + b"\n\n"
