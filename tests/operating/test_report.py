"""Each bound is missed by what breaks it, and by nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.faults.ledger import Findings
from tests.operating.judgement import Call, Crowding, Failures, Labels, Move, Stickiness
from tests.operating.outcome import Outcome, Plan
from tests.operating.report import bounds, table

_CALL: Final = Call(1, "s", 0, 1.0, 2.0, ())
SOUND: Final = Outcome(
    plan=Plan(backends=4, agents=8, cycles=1),
    seconds=60.0,
    calls=1000,
    sessions=100,
    labels=Labels(1000, 2, ()),
    findings=Findings(),
    failures=Failures((), broken=3, hopeless=0, deadly=1),
    stickiness=Stickiness(900, tuple(Move(_CALL, _CALL) for _ in range(9))),
    moved=(),
    strays=(),
    crowding=Crowding(5, 2.0, "b1: 4.0 of 2.0"),
    broken=(),
)
PLANTED: Final[dict[str, Any]] = {
    "lost": {"findings": Findings(lost=["call 1"])},
    "doubled": {"findings": Findings(dup=["call 1"])},
    "wrong": {"findings": Findings(wrong=["call 1"])},
    "another version": {"labels": Labels(1000, 2, ("trace t",))},
    "no trace": {"labels": Labels(0, 0, ())},
    "failed": {"failures": Failures(("call 1",), 0, 0, 0)},
    "unstuck": {"stickiness": Stickiness(900, tuple(Move(_CALL, _CALL) for _ in range(10)))},
    "nothing to stick": {"stickiness": Stickiness(0, ())},
    "moved": {"moved": ["b1 was added"]},
    "a stray": {"strays": ["call 1"]},
    "a crowd": {"crowding": Crowding(5, 2.01, "b1")},
    "no window": {"crowding": Crowding(0, 0.0, "")},
    "a refusal": {"broken": ["POST /api/admin/pause: 404"]},
}


def test_a_sound_run_holds_every_bound() -> None:
    assert all(bound.holds for bound in bounds(SOUND))
    assert "broken**" not in table([("a run", SOUND)])


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_misses_one_bound(planted: str) -> None:
    missed = [bound for bound in bounds(replace(SOUND, **PLANTED[planted])) if not bound.holds]
    assert len(missed) == 1
    assert "**broken**" in table([("a run", replace(SOUND, **PLANTED[planted]))])
