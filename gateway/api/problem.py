"""Every error under `/api` as `application/problem+json` (RFC 9457): one table from exceptions to problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException

from gateway.backends import BackendExists, UnknownBackend
from gateway.refusals import Refusal
from gateway.settings.errors import sentence
from gateway.text_encoder import TokenizerUnavailable
from gateway.upstream import UpstreamError
from gateway.weights.control import EngineRefused
from storage.errors import (
    BadCursor,
    CannotRecord,
    ClaimAcknowledged,
    ClaimExpired,
    ClaimNotFound,
    CorruptTrace,
    KeyNotFound,
    RewardExists,
    SessionDeleted,
    SessionExists,
    SessionNotFound,
    StorageError,
    TooManyKeys,
    TooManyRewards,
    TraceMissing,
)
from storage.formats.trainers.parts import CannotShape
from storage.formats.writers import CannotWrite

MEDIA_TYPE: Final = "application/problem+json"


class UnsupportedMediaType(Refusal):
    status = 415
    code = "unsupported_media_type"


class TraceNotFound(Refusal):
    status = 404
    code = "trace_not_found"


class OtherTrace(Refusal):
    status = 400
    code = "other_trace"


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field of the request, or at one of several backends."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Problem:
    """`detail` is a sentence for people; `code` is for programs and does not change."""

    title: str
    status: int
    detail: str
    code: str
    request_id: str
    type: str = "about:blank"
    errors: tuple[FieldProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    status: int
    code: str


# What is raised below this package; the first row that fits counts.
_TABLE: Final[Mapping[type[Exception], _Row]] = {
    SessionNotFound: _Row(404, "session_not_found"),
    SessionExists: _Row(409, "session_exists"),
    SessionDeleted: _Row(410, "session_deleted"),
    RewardExists: _Row(409, "reward_exists"),
    TraceMissing: _Row(404, "trace_not_found"),
    TooManyRewards: _Row(409, "too_many_rewards"),
    ClaimNotFound: _Row(404, "claim_not_found"),
    ClaimExpired: _Row(409, "claim_expired"),
    ClaimAcknowledged: _Row(409, "claim_acknowledged"),
    KeyNotFound: _Row(404, "key_not_found"),
    TooManyKeys: _Row(409, "too_many_keys"),
    BadCursor: _Row(400, "bad_cursor"),
    CannotRecord: _Row(503, "cannot_record"),
    CorruptTrace: _Row(500, "corrupt_trace"),
    StorageError: _Row(503, "database_unavailable"),
    BackendExists: _Row(409, "backend_exists"),
    UnknownBackend: _Row(404, "backend_not_found"),
    UpstreamError: _Row(502, "backend_unreachable"),
    TokenizerUnavailable: _Row(400, "tokenizer_unavailable"),
    EngineRefused: _Row(502, "engine_refused"),
    CannotShape: _Row(400, "cannot_shape"),
    CannotWrite: _Row(400, "cannot_write"),
}


def problem_of(exc: Exception, request_id: str) -> Problem | None:
    """The problem that an exception is; None for a defect, whose words are nobody's business but the log's."""
    if isinstance(exc, Refusal):
        return _problem(exc.status, exc.code or "invalid_request", str(exc), request_id)
    if isinstance(exc, RequestValidationError):
        errors = tuple(_field_problem(error) for error in _details(exc))
        detail = "; ".join(f"{error.field}: {error.message}" for error in errors)
        return Problem("Bad Request", 400, _ended(detail), "invalid_request", request_id, errors=errors)
    if isinstance(exc, HTTPException):
        code = HTTPStatus(exc.status_code).name.lower()
        return _problem(exc.status_code, code, str(exc.detail), request_id)
    row = _row_of(exc)
    if row is None:
        return None
    problem = _problem(row.status, row.code, str(exc), request_id)
    if isinstance(exc, EngineRefused):
        failures = tuple(FieldProblem(each.backend, each.error or str(each.status)) for each in exc.failures)
        return replace(problem, errors=failures)
    return problem


def _row_of(exc: Exception) -> _Row | None:
    return next((row for kind, row in _TABLE.items() if isinstance(exc, kind)), None)


def defect(request_id: str) -> Problem:
    detail = "The gateway failed on this request; its log says more under this request id."
    return _problem(500, "internal_error", detail, request_id)


def headers_for(exc: Exception) -> list[tuple[str, str]]:
    """What an error's answer has beside its body."""
    if isinstance(exc, Refusal):
        challenge = [("www-authenticate", "Bearer")] if exc.status == 401 else []
        return [*challenge, *exc.headers]
    row = _row_of(exc)
    if row is not None and row.status == 503:
        return [("retry-after", "1")]
    if isinstance(exc, HTTPException):
        return [(name.lower(), value) for name, value in (exc.headers or {}).items()]
    return []


def _problem(status: int, code: str, detail: str, request_id: str) -> Problem:
    sentence = _ended(detail[:1].upper() + detail[1:])
    return Problem(HTTPStatus(status).phrase, status, sentence, code, request_id)


def _ended(detail: str) -> str:
    return detail if detail.endswith((".", "?", "!")) else f"{detail}."


def _details(exc: RequestValidationError) -> Sequence[ErrorDetails | Any]:
    return exc.errors()


def _field_problem(error: ErrorDetails) -> FieldProblem:
    place, *path = (str(part) for part in error["loc"])
    if error["type"] == "json_invalid":
        # Its place is a byte offset, and the message says what was there.
        return FieldProblem("body", f"not valid JSON: {error['ctx']['error']} at byte {path[0]}")
    return FieldProblem(".".join(path) or place, sentence(error))
