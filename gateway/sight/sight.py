"""The one place that calls tell of themselves: each fact once, to metrics, log and spans alike."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from adapters.schema import SessionStatus, Trace
from gateway.refusals import Refusal
from gateway.sight.metrics import Metrics
from gateway.sight.tracing import CallSpan, Spans

logger = logging.getLogger(__name__)

# What went well is for who looks for one call; what was refused its caller knows.
_LEVELS: Final = {"ok": logging.DEBUG, "rejected": logging.INFO}


class Sight:
    """What the rest of the gateway knows of all this."""

    def __init__(self, spans: Spans | None = None) -> None:
        self.metrics = Metrics()
        self._spans = spans

    def begin(self, headers: Mapping[str, str]) -> CallSpan | None:
        """The span of a call that begins; null where nobody wants any."""
        return self._spans.begin(headers) if self._spans is not None else None

    def ended(self, trace: Trace, *, waited: float, recorded: bool) -> None:
        """A call has its end, and its record, for which its agent waited so many seconds."""
        self.metrics.ended(trace, waited=waited, recorded=recorded)
        level = _LEVELS.get(trace.status, logging.WARNING)
        if logger.isEnabledFor(level):
            logger.log(level, "a call ended: %s", trace.status, extra=_facts(trace))

    def refused(self, refusal: Refusal) -> None:
        """Somebody was turned away of whom nothing is recorded."""
        self.metrics.refused(refusal.error.code)

    def kept_alive(self) -> None:
        """A call's agent was sent the first of its keep-alives."""
        self.metrics.keepalives.add()

    def session_ended(self, status: SessionStatus) -> None:
        self.metrics.sessions_ended.add((status,))

    def claim(self, action: str) -> None:
        """`made`, `acknowledged` or `released`."""
        self.metrics.claims.add((action,))


def _facts(trace: Trace) -> dict[str, object]:
    """Of an error its code alone: engines quote what they were sent."""
    told = {
        "trace_id": trace.trace_id,
        "session_id": trace.session_id,
        "dialect": trace.dialect,
        "engine": trace.engine,
        "backend": trace.backend,
        "http_status": trace.http_status,
        "error_code": trace.error.code if trace.error is not None else None,
        "fidelity": trace.fidelity,
        "attempts": len(trace.attempts),
        "first_token_ms": trace.first_token_ms,
        "duration_ms": trace.duration_ms,
    }
    return {name: value for name, value in told.items() if value is not None}
