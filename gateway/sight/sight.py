"""The one place that calls tell of themselves: each fact once, to metrics, log and spans alike."""

from __future__ import annotations

from adapters.schema import SessionStatus, Trace
from gateway.refusals import Refusal
from gateway.sight.metrics import Metrics


class Sight:
    """What the rest of the gateway knows of all this."""

    def __init__(self) -> None:
        self.metrics = Metrics()

    def ended(self, trace: Trace, *, waited: float, recorded: bool) -> None:
        """A call has its end, and its record, for which its agent waited so many seconds."""
        self.metrics.ended(trace, waited=waited, recorded=recorded)

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
