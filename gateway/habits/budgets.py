"""What a session may use up: calls, tokens, time. Counted from its traces, and from what is in flight here.

The database sums up what a session's traces have used; what ends here is added. Where this gateway is the only one,
it is asked at the session's first call; where others write too, at each, so that calls one after the other are held to
the budget whichever gateway they land on. Calls at the same time are all counted, but what each of them will sample is
known only at its end: tokens can overshoot by what was in flight, and calls by those that began elsewhere just now.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

from msgspec import Raw

from adapters.raw import integer
from adapters.request import CanonicalRequest
from adapters.schema import Session, Trace
from gateway.habits.sampling import limit_name
from gateway.habits.tally import Budget, Tally
from gateway.patience import Patience
from gateway.refusals import BudgetSpent
from storage.errors import StorageError
from storage.usage import Usage

logger = logging.getLogger(__name__)

_CACHED: Final = 10_000
# An agent that goes on asking after so many ends does not take them for one.
_GENTLE: Final = 3
# A call that says no limit gets one only where little is left: engines refuse a limit beyond the end of the context.
_SMALL: Final = 4096
# What a legacy completion without a limit ends after.
_COMPLETION_LIMIT: Final = 16


class UsageStore(Protocol):
    """What this module needs of the store."""

    async def usage(self, session_id: str, attempt: int) -> Usage: ...


@dataclass(frozen=True, slots=True)
class Admitted:
    """A call that may go out."""

    request: CanonicalRequest
    """With no more tokens asked for than are left."""
    counted: bool
    """Whether the database has told what was used; else only what was seen here counts."""


class Budgets:
    """Lets calls through while there is something left for them."""

    def __init__(
        self,
        store: UsageStore,
        *,
        shared: bool = False,
        patience: Patience | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`shared`: other gateways write to the same database."""
        self._store = store
        self._shared = shared
        self._patience = patience or Patience()
        self._clock = clock
        self._tallies: OrderedDict[tuple[str, int], Tally] = OrderedDict()
        """By session and attempt."""

    async def admit(self, session: Session, trace_id: str, request: CanonicalRequest) -> Admitted:
        """Raises BudgetSpent. Whoever is let through is to be told of in `ended`.

        While the database is away, a session may use up what is left as far as is known here: its rollout goes on.
        """
        assert session.budgets is not None
        budget = Budget.of(session.budgets)
        tally, counted = await self._tally(session.session_id, session.attempt)
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
        return Admitted(request if left is None else limited(request, left), counted)

    def ended(self, trace: Trace) -> None:
        """A call has its end, whichever."""
        tally = self._tallies.get((trace.session_id, trace.attempt))
        if tally is not None and trace.trace_id in tally.in_flight:
            tally.in_flight.remove(trace.trace_id)
            tally.add(trace)

    async def _tally(self, session_id: str, attempt: int) -> tuple[Tally, bool]:
        """The session's, and whether the database has just told what it says, or need not."""
        key = session_id, attempt
        tally = self._tallies.setdefault(key, Tally())
        self._tallies.move_to_end(key)
        if len(self._tallies) > _CACHED:
            self._tallies.popitem(last=False)
        if tally.counted and not self._shared:
            return tally, True
        in_flight = frozenset(tally.in_flight)
        try:
            used = await self._patience.wait_for(partial(self._store.usage, session_id, attempt))
        except StorageError as exc:
            logger.info("session %s: what it has used up could not be looked up: %s", session_id, exc)
            return tally, False
        if (
            self._shared or not tally.counted
        ):  # Else a call that asked at the same time has counted what has ended since.
            tally.heed(used, in_flight)
        return tally, True


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
