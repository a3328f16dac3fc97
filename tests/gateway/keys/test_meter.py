"""A minute's sum, and how long to wait for room in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.keys.meter import Minute

# Up to five seconds, in parts that floats add without rounding: else a wait could end a hair beside its second.
_PAUSES = st.integers(0, 5 * 1024).map(lambda parts: parts / 1024)


def test_there_is_room_until_the_limit_and_again_a_minute_later() -> None:
    minute = Minute()
    for second in (0.0, 0.5, 10.2):
        assert minute.wait(3, second) == 0
        minute.add(1, second)
    assert minute.wait(3, 10.9) == 51
    assert minute.wait(3, 60.9) == 1
    assert minute.wait(3, 61.0) == 0


def test_what_weighs_more_than_the_limit_has_to_be_forgotten_first() -> None:
    minute = Minute()
    minute.add(10, 0.0)
    minute.add(500, 20.0)
    assert minute.wait(100, 30.0) == 51
    assert minute.wait(1000, 30.0) == 0
    assert minute.wait(100, 81.0) == 0


@given(st.lists(st.tuples(_PAUSES, st.integers(1, 50)), max_size=60), st.integers(1, 200))
def test_no_minute_holds_more_than_its_limit_by_more_than_the_last_amount(
    steps: list[tuple[float, int]], limit: int
) -> None:
    minute, now = Minute(), 0.0
    taken: list[tuple[float, int]] = []
    for pause, amount in steps:
        now += pause
        if minute.wait(limit, now) == 0:
            minute.add(amount, now)
            taken.append((now, amount))
            within = [each for at, each in taken if at > now - 60]
            assert sum(within) - amount < limit


@given(st.lists(st.tuples(_PAUSES, st.integers(1, 50)), min_size=1, max_size=40), st.integers(1, 100))
def test_whoever_waits_as_long_as_told_finds_room_and_not_a_second_before(
    steps: list[tuple[float, int]], limit: int
) -> None:
    minute, now = Minute(), 0.0
    for pause, amount in steps:
        now += pause
        minute.add(amount, now)
    wait = minute.wait(limit, now)
    if wait > 1:
        assert minute.wait(limit, now + wait - 1) > 0
    assert minute.wait(limit, now + wait) == 0
