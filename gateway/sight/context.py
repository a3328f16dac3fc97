"""Of which call a line of the log is: held beside the task that serves it, and inherited by whatever it begins."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Ids:
    """As they become known."""

    request_id: str
    trace_id: str | None = None
    session_id: str | None = None


CALL: ContextVar[Ids | None] = ContextVar("call", default=None)
"""Set once where a request comes in. Its server gives each request a context of its own, so nothing is taken back."""
