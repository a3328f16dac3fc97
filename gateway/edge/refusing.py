"""A refusal as the bytes of one HTTP answer, where there is no call yet: in the shape that the path's callers parse."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from gateway.api.encoding import encode
from gateway.api.problem import MEDIA_TYPE, problem_of
from gateway.dialects import openai_errors
from gateway.dialects.table import COUNTERS, ENDPOINTS
from gateway.refusals import Refusal
from storage.ids import new_id

_OWN_SESSION: Final = re.compile(r"/sessions/[^/]*")


def answer_of(refusal: Refusal, target: bytes) -> bytes:
    """Of a target that is not known yet, or is nobody's, an error of OpenAI's shape. The connection ends behind it."""
    request_id = new_id()
    media_type, body = _body(refusal, target.decode("latin-1").partition("?")[0], request_id)
    headers = [
        ("content-type", media_type),
        ("content-length", str(len(body))),
        ("connection", "close"),
        ("x-request-id", request_id),
        *refusal.headers,
    ]
    status = f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}"
    head = "\r\n".join([status, *(f"{name}: {value}" for name, value in headers)])
    return head.encode("latin-1") + b"\r\n\r\n" + body


def _body(refusal: Refusal, path: str, request_id: str) -> tuple[str, bytes]:
    if path.startswith("/api/"):
        problem = problem_of(refusal, request_id)
        assert problem is not None, "a Refusal has its problem"
        return MEDIA_TYPE, encode(problem)
    own = _OWN_SESSION.match(path)
    endpoint = path[own.end() :] if own is not None else path
    dialect = ENDPOINTS.get(endpoint) or COUNTERS.get(endpoint)
    if dialect is None:
        return "application/json", openai_errors.error_body(refusal.status, refusal.error)
    return "application/json", dialect.error_body(refusal.status, refusal.error, request_id)
