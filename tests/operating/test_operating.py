"""The short form of `make operate`: fewer backends and agents, answers of some tenths of a second, two cycles."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.operating.outcome import Outcome, Plan
from tests.operating.report import bounds
from tests.operating.rollouts import Pace
from tests.operating.shift import night_shift, one_of_two, operate

_PACE: Final = Pace(shortest=0.1, longest=0.6, thinking=0.2)


def missed(outcome: Outcome) -> list[str]:
    return [f"{bound.promise}: {bound.seen} {[*bound.complaints][:5]}" for bound in bounds(outcome) if not bound.holds]


async def test_backends_die_hang_come_back_drain_come_and_go_and_weights_change_and_no_agent_notices(
    tmp_path: Path,
) -> None:
    # Six backends for seconds, one of them just back: the long form has the numbers for a narrower bound.
    plan = Plan(backends=6, agents=36, cycles=2, period=3.2, pace=_PACE, window=2.0, most_crowded=4.0)
    outcome = await operate(tmp_path, plan, night_shift)
    assert missed(outcome) == []
    assert outcome.done["hung till it was killed"] == 1
    assert outcome.done["drained"] == 2
    assert outcome.labels.versions == 3


async def test_with_one_of_two_backends_dead_no_call_fails(tmp_path: Path) -> None:
    plan = Plan(backends=2, agents=12, cycles=1, period=2.0, pace=_PACE, window=1.0)
    outcome = await operate(tmp_path, plan, one_of_two)
    assert missed(outcome) == []
    assert outcome.done["died"] == 1
