"""Errors in the shape that Anthropic's clients parse, with the type that belongs to the status."""

from __future__ import annotations

from typing import Final

import msgspec

from adapters.overflow import Overflow, overflow_of
from adapters.schema import Error
from gateway.dialects.messages.blocks import event

_TYPES: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    410: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
# Inside a stream there is no status: what the gateway itself tells there, by its codes.
_STATUS_OF: Final = {
    "backend_timeout": 504,
    "cannot_record": 503,
    "gateway_stopping": 503,
    "no_backend": 503,
}


def error_body(status: int, error: Error, request_id: str | None = None) -> bytes:
    body: dict[str, object] = {"type": "error", "error": _told(status, error)}
    return msgspec.json.encode(body if request_id is None else body | {"request_id": request_id})


def error_event(error: Error) -> bytes:
    """A stream's last event. No `message_stop` follows: that would be a clean end."""
    code = error.code
    status = code if isinstance(code, int) else _STATUS_OF.get(code or "", 500)
    return event("error", {"error": _told(status, error)})


def _told(status: int, error: Error) -> dict[str, str]:
    overflow = overflow_of(error) if status != 429 else None
    if overflow is not None:
        return {"type": "invalid_request_error", "message": _too_long(overflow, error)}
    default = "invalid_request_error" if 400 <= status < 500 else "api_error"
    return {"type": _TYPES.get(status, default), "message": error.message}


def _too_long(overflow: Overflow, error: Error) -> str:
    """In the words that Claude Code looks for: it summarises at the first, asks for a shorter answer at the second."""
    prompt, limit = overflow.prompt, overflow.limit
    if prompt is None or limit is None:
        return f"prompt is too long: {error.message}"
    if overflow.by_answer:
        return (
            f"input length and `max_tokens` exceed context limit: {prompt} + {overflow.answer} > {limit}, "
            "decrease input length or `max_tokens` and try again"
        )
    # Some engines count no further than the first token too many, and some need room for one token more.
    return f"prompt is too long: {max(prompt, limit + 1)} tokens > {limit} maximum"
