"""What becomes of a call before a backend is asked: which purpose it has, what it repeats, what it may ask for."""

from __future__ import annotations

from dataclasses import replace

from adapters.request import CanonicalRequest
from adapters.schema import Trace
from gateway.call import Call
from gateway.habits.aux_calls import aux_rule
from gateway.habits.budgets import Budgets
from gateway.habits.harness import with_metadata
from gateway.habits.retries import Retries
from gateway.habits.sampling import pinned


class Habits:
    """Those of agents, and what sessions' owners set against them."""

    def __init__(self, budgets: Budgets, retries: Retries, *, aux_rules: bool, keep_limits: bool = False) -> None:
        """`keep_limits`: a `max_tokens` beyond the whole context of its server is sent all the same."""
        self._budgets = budgets
        self._retries = retries
        self._aux_rules = aux_rules
        self._keep_limits = keep_limits

    async def heed(self, call: Call) -> CanonicalRequest:
        """The request to send. What else is found out stands on the call. Raises BudgetSpent."""
        request, session = call.asked, call.session
        assert request is not None
        assert call.body is not None
        call.harness = with_metadata(call.harness, call.body)
        if self._aux_rules and not call.purpose_told:
            call.aux_rule = aux_rule(call.harness.get("name"), call.headers, request)
            if call.aux_rule is not None:
                call.purpose = "aux"
        call.retry_of = await self._retries.began(session, call.trace_id, call.headers, call.body)
        request = pinned(request, session.sampling)
        if self._keep_limits:
            request = replace(request, keep_limits=True)
        if session.budgets and call.purpose != "aux":
            admitted = await self._budgets.admit(session, call.trace_id, request)
            request = admitted.request
            if not admitted.counted:
                call.not_looked_up.append("budget")
        return request

    def ended(self, trace: Trace) -> None:
        """A call of which `heed` was asked has its trace."""
        self._budgets.ended(trace)
        self._retries.ended(trace)
