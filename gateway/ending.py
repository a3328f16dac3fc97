"""How a call ended: what its trace says of it, and what its agent gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters.answer import Outcome
from adapters.schema import Error, Status
from gateway.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Ending:
    """The agent gets it once the trace is committed."""

    status: Status
    http_status: int
    error: Error | None = None
    outcome: Outcome | None = None
    body: bytes = b""
    headers: Sequence[tuple[str, str]] = ()
    answers: bool = False
    """The agent gets the body though there is an error: it is the trace's alone."""

    @classmethod
    def refused(cls, refusal: Refusal, outcome: Outcome | None, *, asked: bool) -> Ending:
        """`asked`: a backend was called. Else the call is `rejected`: nobody but the gateway has seen it."""
        status: Status = "backend_error" if asked else "rejected"
        return cls(status, refusal.status, refusal.error, outcome, headers=refusal.headers)

    @property
    def agents_error(self) -> Error | None:
        return None if self.answers else self.error
