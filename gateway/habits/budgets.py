"""What a session may use up: calls, tokens, time. Counted from its traces, and from what is in flight here.

A session is counted in this process from its first budgeted call on: its traces are read once, and what ends here is
added. So a restart forgets nothing. Calls at the same time are all counted, but what each of them will sample is known
only at its end: tokens can overshoot by what was in flight. A gateway does not see what another one has in flight.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol, Self

from msgspec import Raw

from adapters.raw import integer
from adapters.request import CanonicalRequest
from adapters.schema import Session, Status, Trace
from gateway.habits.sampling import limit_name
from gateway.refusals import BudgetSpent, NotRecordable
from storage.errors import StorageError
from storage.records import Page, TraceQuery

_CACHED: Final = 10_000
_PAGE: Final = 1_000
# An agent that goes on asking after so many ends does not take them for one.
_GENTLE: Final = 3
# A call that says no limit gets one only where little is left: engines refuse a limit beyond the end of the context.
_SMALL: Final = 4096
# What a legacy completion without a limit ends after.
_COMPLETION_LIMIT: Final = 16

# A call that failed is not held against its session: its SDK asks again by itself.
_COUNTED: Final[frozenset[Status]] = frozenset({"running", "ok", "client_disconnected"})


class TraceStore(Protocol):
    """What this module needs of the store."""

    async def traces(self, query: TraceQuery) -> Page[Trace]: ...


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
    ends_told: int = 0

    def add(self, trace: Trace) -> None:
        """A call as its trace has it. `aux` calls are no steps of the agent's, and what was refused was no call."""
        if trace.purpose == "aux" or trace.status == "rejected":
            return
        self.calls += trace.status in _COUNTED
        completion, total = _tokens(trace)
        self.completion_tokens += completion
        self.total_tokens += total
        self.first_call_at = min(self.first_call_at or trace.started_at, trace.started_at)

    def spent(self, budget: Budget, now: datetime) -> str | None:
        """The part of the budget that there is nothing left of, in words."""
        if budget.calls is not None and self.calls + len(self.in_flight) >= budget.calls:
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


class Budgets:
    """Lets calls through while there is something left for them."""

    def __init__(self, store: TraceStore, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._store = store
        self._clock = clock
        self._tallies: OrderedDict[str, Tally] = OrderedDict()

    async def admit(self, session: Session, trace_id: str, request: CanonicalRequest) -> CanonicalRequest:
        """The call with no more tokens asked for than are left. Raises BudgetSpent; NotRecordable where the database
        can't be asked. Whoever is let through is to be told of in `ended`.
        """
        assert session.budgets is not None
        budget = Budget.of(session.budgets)
        tally = await self._tally(session.session_id)
        now = self._clock()
        spent = tally.spent(budget, now)
        if spent is not None:
            tally.ends_told += 1
            raise BudgetSpent(
                f"This session's budget of {spent} is spent, so the model was not asked.",
                gently=tally.ends_told <= _GENTLE,
            )
        tally.in_flight.add(trace_id)
        tally.first_call_at = tally.first_call_at or now
        left = tally.tokens_left(budget)
        return request if left is None else limited(request, left)

    def ended(self, trace: Trace) -> None:
        """A call has its end, whichever."""
        tally = self._tallies.get(trace.session_id)
        if tally is not None and trace.trace_id in tally.in_flight:
            tally.in_flight.remove(trace.trace_id)
            tally.add(trace)

    async def _tally(self, session_id: str) -> Tally:
        tally = self._tallies.get(session_id)
        if tally is None:
            counted = await self._counted(session_id)
            # Another call may have been counting at the same time, and calls have been let through since.
            tally = self._tallies.setdefault(session_id, counted)
            if len(self._tallies) > _CACHED:
                self._tallies.popitem(last=False)
        self._tallies.move_to_end(session_id)
        return tally

    async def _counted(self, session_id: str) -> Tally:
        tally = Tally()
        query = TraceQuery(session_id=session_id, limit=_PAGE)
        try:
            while True:
                page = await self._store.traces(query)
                for trace in page.items:
                    tally.add(trace)
                if page.next is None:
                    return tally
                query = replace(query, cursor=page.next)
        except StorageError as exc:
            raise NotRecordable("The session's budget can't be counted now; try again.") from exc


def limited(request: CanonicalRequest, tokens: int) -> CanonicalRequest:
    """The request with no higher limit than this, for all its choices together."""
    each = max(1, tokens // request.expected_choices)
    name = limit_name(request)
    asked = integer(request.fields.get(name))
    if asked is None:
        small = _COMPLETION_LIMIT - 1 if request.endpoint == "completions" else _SMALL
        if each > small:
            return request
    elif asked <= each:
        return request
    return replace(request, fields={**request.fields, name: Raw(b"%d" % each)})


def _tokens(trace: Trace) -> tuple[int, int]:
    """Sampled, and with the prompt: as counted, else as many as were told."""
    usage = trace.usage
    sampled = usage.completion_tokens if usage is not None else None
    prompt = usage.prompt_tokens if usage is not None else None
    if sampled is None:
        sampled = sum(len(choice.token_ids or ()) for choice in trace.choices)
    if prompt is None:
        prompt = len(trace.prompt_token_ids or ())
    return sampled, prompt + sampled
