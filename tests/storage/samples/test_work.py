"""How much is done to build a session's samples."""

from __future__ import annotations

from adapters.schema import Trace
from storage.samples.build import samples_of
from tests.storage.samples.examples import SESSION, turn
from tests.storage.samples.steps import steps_of


def growing(turns: int, tokens: int) -> list[Trace]:
    """A session that reaches so many tokens in so many turns, half of them sampled."""
    part = tokens // turns // 2
    text = list(range(turns * 2 * part))
    ends = [number * 2 * part for number in range(turns)]
    return [turn(number, text[: end + part], text[end + part : end + 2 * part]) for number, end in enumerate(ends)]


def steps_to_build(traces: list[Trace]) -> int:
    assert [len(sample.spans) for sample in samples_of(SESSION, traces)] == [len(traces)]
    return steps_of(lambda: samples_of(SESSION, traces))


def test_no_step_is_taken_per_token() -> None:
    assert steps_to_build(growing(50, 8_000)) == steps_to_build(growing(50, 1_000))


def test_steps_are_linear_in_the_turns() -> None:
    assert steps_to_build(growing(200, 4_000)) < 2.1 * steps_to_build(growing(100, 4_000))
