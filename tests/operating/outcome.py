"""What a run is to be, and what it showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults.ledger import Findings
from tests.operating.judgement import Crowding, Failures, Labels, Stickiness
from tests.operating.rollouts import PACE, Pace


@dataclass(frozen=True, slots=True)
class Plan:
    backends: int
    agents: int
    cycles: int
    """Of what is done to the backends, and how long each takes, in seconds."""
    period: float = 60.0
    pace: Pace = PACE
    gateways: int = 1
    database: str | None = None
    window: float = 10.0
    """Over which calls in flight are averaged."""
    most_crowded: float = 2.0
    """How many times the mean one backend may have of them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run showed."""

    plan: Plan
    seconds: float
    calls: int
    sessions: int
    labels: Labels
    findings: Findings
    failures: Failures
    stickiness: Stickiness
    moved: Sequence[str]
    strays: Sequence[str]
    crowding: Crowding
    broken: Sequence[str]
    """Of what was asked of the administration."""
    done: Mapping[str, int] = field(default_factory=dict)
    longest_pause: float = 0.0

    def headline(self) -> str:
        plan = self.plan
        what = f"{plan.backends} backends, {plan.agents} agents, {self.seconds / 60:.1f} min"
        done = ", ".join(f"{times} {name}" for name, times in self.done.items())
        pauses = f"; longest pause {self.longest_pause:.1f} s" if self.longest_pause else ""
        return f"{what}: {self.calls} calls of {self.sessions} sessions; {done}{pauses}"
