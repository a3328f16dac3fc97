"""The short form of `make operate`: fewer backends and agents, answers of some tenths of a second, two cycles."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.operating.outcome import Outcome, Plan
from tests.operating.report import bounds
from tests.operating.rollouts import Pace
from tests.operating.shift import one_of_two, operate

_PACE: Final = Pace(shortest=0.1, longest=0.6, thinking=0.2)


def missed(outcome: Outcome) -> list[str]:
    return [f"{bound.promise}: {bound.seen} {[*bound.complaints][:5]}" for bound in bounds(outcome) if not bound.holds]


async def test_with_one_of_two_backends_dead_no_call_fails(tmp_path: Path) -> None:
    plan = Plan(backends=2, agents=12, cycles=2, period=2.5, pace=_PACE, window=1.0)
    outcome = await operate(tmp_path, plan, one_of_two)
    assert missed(outcome) == []
    assert outcome.done["died"] == 2
