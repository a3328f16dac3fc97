"""What goes wrong between a trainer and the gateway: one error for each thing that a caller does differently about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final


class GatewayError(Exception):
    """The gateway refused, failed, or could not be reached. `str()` is a sentence that says what to do."""

    default: ClassVar[str] = "The gateway gave no reason."

    def __init__(
        self,
        detail: str | None = None,
        *,
        status: int | None = None,
        title: str = "",
        code: str | None = None,
        request_id: str | None = None,
    ) -> None:
        self.detail = detail or self.default
        self.status = status
        """The HTTP status; null where no answer came."""
        self.title = title
        self.code = code
        """For programs: it does not change its meaning (`session_not_found`, `claim_expired` …)."""
        self.request_id = request_id
        """Under which the gateway's own log says more."""
        super().__init__(self.detail)


class InvalidCall(GatewayError):
    """400, 413, 415, 422: the gateway does not understand what was asked; asking again does not help."""


class Unauthorized(GatewayError):
    """401, 403: the key is missing, wrong, or not good for this."""


class NotFound(GatewayError):
    """404, 410: there is no such thing, or it was deleted."""


class Conflict(GatewayError):
    """409: it can't be so any more; something else is the case."""


class ClaimExpired(Conflict):
    """The lease ran out before the acknowledgement: the work was offered again, and may be another's now."""


class Unavailable(GatewayError):
    """502, 503, 504, or no answer: the same call may do later."""


class EngineRefused(Unavailable):
    """An engine did not pause, or does not go on: `str()` names each, and what it said."""


class NotDrained(GatewayError):
    """Calls in flight did not end in the time that a weight update had for them. Nothing was changed."""


class PauseExpired(GatewayError):
    """A weight update took longer than its pause: calls went on in the middle of it."""


class Unreachable(Unavailable):
    """No answer came, or not all of one."""


class UnreadableAnswer(GatewayError):
    """What answered is no rollout-gateway, or one whose answers this client does not know."""


_BY_CODE: Final[Mapping[str, type[GatewayError]]] = {
    "claim_expired": ClaimExpired,
    "engine_refused": EngineRefused,
}
_BY_STATUS: Final[Mapping[int, type[GatewayError]]] = {
    **dict.fromkeys((400, 413, 415, 422), InvalidCall),
    **dict.fromkeys((401, 403), Unauthorized),
    **dict.fromkeys((404, 410), NotFound),
    409: Conflict,
    **dict.fromkeys((502, 503, 504), Unavailable),
}


def refusal(status: int, body: bytes) -> GatewayError:
    """The error that an answer with this status is, in the words of its problem (RFC 9457) where it has one."""
    problem = _problem(body)
    code = _text(problem, "code")
    kind = _BY_CODE.get(code or "") or _BY_STATUS.get(status, GatewayError)
    title = _text(problem, "title") or ""
    return kind(
        _text(problem, "detail") or title or f"The answer was a bare {status}; is this the URL of a rollout-gateway?",
        status=status,
        title=title,
        code=code,
        request_id=_text(problem, "request_id"),
    )


def _problem(body: bytes) -> Mapping[str, Any]:
    try:
        told = json.loads(body)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _text(problem: Mapping[str, Any], name: str) -> str | None:
    value = problem.get(name)
    return value if isinstance(value, str) else None
