"""How much is done for a session: counted in calls of functions, which no other work of the machine changes."""

from __future__ import annotations

import sys
from types import FrameType

from adapters.schema import Trace
from storage.samples.build import samples_of
from tests.storage.samples.examples import SESSION, turn


def growing(turns: int, tokens: int) -> list[Trace]:
    """A session that reaches so many tokens in so many turns, half of them sampled."""
    part = tokens // turns // 2
    text = list(range(turns * 2 * part))
    ends = [number * 2 * part for number in range(turns)]
    return [turn(number, text[: end + part], text[end + part : end + 2 * part]) for number, end in enumerate(ends)]


def calls_to_build(traces: list[Trace]) -> int:
    """Of Python's functions and of those in C."""
    count = 0

    def counting(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counting)
    try:
        samples = samples_of(SESSION, traces)
    finally:
        sys.setprofile(None)
    assert [len(sample.spans) for sample in samples] == [len(traces)]
    return count


def test_no_step_is_taken_per_token() -> None:
    assert calls_to_build(growing(50, 8_000)) == calls_to_build(growing(50, 1_000))


def test_steps_are_linear_in_the_turns() -> None:
    assert calls_to_build(growing(200, 4_000)) < 2.1 * calls_to_build(growing(100, 4_000))
