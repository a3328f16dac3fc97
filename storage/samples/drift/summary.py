"""Drift summed: over a session's calls, and over many sessions by run and agent, in memory that is theirs alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from storage.samples.drift.report import AgentDrift, CallDrift, Cause, Continuity, Counts, Example, SessionDrift


@dataclass(slots=True)
class _Tally:
    continuities: Counter[Continuity] = field(default_factory=Counter)
    causes: Counter[Cause] = field(default_factory=Counter)

    def add(self, call: CallDrift) -> None:
        self.continuities[call.continuity] += 1
        if call.broken is not None:
            self.causes[call.broken.cause] += 1

    @property
    def counts(self) -> Counts:
        words = self.continuities
        continued = words["extends"] + words["breaks"]
        return Counts(
            calls=words.total(),
            starts=words["starts"],
            extends=words["extends"],
            breaks=words["breaks"],
            unjudged=words["unjudged"],
            exact_share=words["extends"] / continued if continued else None,
            causes=dict(self.causes.most_common()),
        )


def counts_of(calls: Iterable[CallDrift]) -> Counts:
    tally = _Tally()
    for call in calls:
        tally.add(call)
    return tally.counts


@dataclass(slots=True)
class _Agent:
    sessions: int = 0
    tally: _Tally = field(default_factory=_Tally)
    examples: dict[Cause, Example] = field(default_factory=dict)


class Summary:
    """Sessions are added one after the other, and only numbers and one example of each cause are kept of them."""

    def __init__(self, agent: str | None = None) -> None:
        """Of this agent's calls alone, where one is named."""
        self._agent = agent
        self._agents: dict[tuple[str | None, str | None], _Agent] = {}

    def add(self, session: SessionDrift) -> None:
        calls = [call for call in session.calls if self._agent is None or call.agent == self._agent]
        for agent in {call.agent for call in calls}:
            self._agents.setdefault((session.run_id, agent), _Agent()).sessions += 1
        for call in calls:
            known = self._agents[session.run_id, call.agent]
            known.tally.add(call)
            if call.broken is not None:
                known.examples.setdefault(call.broken.cause, Example(session.session_id, call.broken))

    def agents(self) -> tuple[AgentDrift, ...]:
        """In the order of runs, the agent with the most breaks first."""
        told = (
            AgentDrift(run_id, agent, known.sessions, known.tally.counts, dict(known.examples))
            for (run_id, agent), known in self._agents.items()
        )
        return tuple(sorted(told, key=lambda each: (each.run_id or "", -each.counts.breaks, each.agent or "")))
