"""What a session has used up, held against what it may use: numbers alone, wherever they come from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from adapters.schema import Trace
from storage.usage import COUNTED, Usage, tokens_of


@dataclass(frozen=True, slots=True)
class Budget:
    """A null bounds nothing."""

    calls: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    """Prompts and answers."""
    seconds: float | None = None
    """Since the session's first call."""

    @classmethod
    def of(cls, budgets: Mapping[str, Any]) -> Self:
        return cls(**{name: budgets[name] for name in cls.__slots__ if name in budgets})


@dataclass(slots=True)
class Tally:
    """What a session has used up, as far as is known here."""

    calls: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    first_call_at: datetime | None = None
    in_flight: set[str] = field(default_factory=set)
    """Trace ids of calls that were let through and have not ended."""
    elsewhere: int = 0
    """Calls in flight at other gateways, as last heard."""
    ends_told: int = 0
    counted: bool = False
    """Whether the database was asked."""

    def heed(self, used: Usage, in_flight_then: Collection[str]) -> None:
        """Take over what the database told, which may not have all yet that has ended here: a spool may."""
        self.calls = max(self.calls, used.calls)
        self.completion_tokens = max(self.completion_tokens, used.completion_tokens)
        self.total_tokens = max(self.total_tokens, used.prompt_tokens + used.completion_tokens)
        told = [at for at in (self.first_call_at, used.first_call_at) if at is not None]
        self.first_call_at = min(told, default=None)
        self.elsewhere = len(used.running.difference(in_flight_then, self.in_flight))
        self.counted = True

    def add(self, trace: Trace) -> None:
        """A call as its trace has it. `aux` calls are no steps of the agent's, and what was refused was no call."""
        if trace.purpose == "aux" or trace.status == "rejected":
            return
        self.calls += trace.status in COUNTED
        prompt, sampled = tokens_of(trace)
        self.completion_tokens += sampled
        self.total_tokens += prompt + sampled
        self.first_call_at = min(self.first_call_at or trace.started_at, trace.started_at)

    def spent(self, budget: Budget, now: datetime) -> str | None:
        """The part of the budget that there is nothing left of, in words."""
        if budget.calls is not None and self.calls + len(self.in_flight) + self.elsewhere >= budget.calls:
            return f"{budget.calls} calls"
        if budget.completion_tokens is not None and self.completion_tokens >= budget.completion_tokens:
            return f"{budget.completion_tokens} sampled tokens"
        if budget.total_tokens is not None and self.total_tokens >= budget.total_tokens:
            return f"{budget.total_tokens} tokens"
        if budget.seconds is not None and self._seconds(now) >= budget.seconds:
            return f"{budget.seconds:g} seconds"
        return None

    def tokens_left(self, budget: Budget) -> int | None:
        """How many tokens may be sampled; null where nothing bounds them."""
        left = []
        if budget.completion_tokens is not None:
            left.append(budget.completion_tokens - self.completion_tokens)
        if budget.total_tokens is not None:
            left.append(budget.total_tokens - self.total_tokens)
        return min(left, default=None)

    def _seconds(self, now: datetime) -> float:
        # A first call that has just come has taken no time yet; a budget of 0 seconds is spent all the same.
        return (now - self.first_call_at).total_seconds() if self.first_call_at is not None else 0.0
