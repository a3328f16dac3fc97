"""How much is done to judge a session whose calls are alike."""

from __future__ import annotations

import pytest

from adapters.schema import Trace
from adapters.scripts.speech import Speech, say
from tests.storage.samples.drift.conversations import chat, drift, sent_back, user
from tests.storage.samples.steps import steps_of

ASKED, YES, OTHER = user("Is it so?"), say("Yes."), say("No, never.")


def rollouts(count: int, repeated: Speech) -> list[Trace]:
    """So many rollouts of one prompt that somebody put into one session: each is asked, and goes on from an answer."""
    asked = [chat(number, [ASKED], YES) for number in range(count)]
    return asked + [chat(count + number, [ASKED, sent_back(repeated), user("Go on.")]) for number in range(count)]


def steps_to_judge(traces: list[Trace]) -> int:
    assert len(drift(*traces).calls) == len(traces)
    return steps_of(lambda: drift(*traces))


@pytest.mark.parametrize("repeated", [YES, OTHER], ids=["as it was given", "as nobody gave it"])
def test_steps_are_linear_in_calls_that_are_alike(repeated: Speech) -> None:
    assert steps_to_judge(rollouts(200, repeated)) < 2.1 * steps_to_judge(rollouts(100, repeated))
