from __future__ import annotations

from datetime import UTC, datetime

from adapters.schema import Reward
from storage.samples.rewards import current, total

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def told(name: str, value: float, *, trace_id: str | None = None, weight: float = 1.0) -> Reward:
    return Reward(f"{name}={value}", name, value, NOON, weight, trace_id)


def test_a_later_one_of_the_same_name_revises_and_keeps_the_place() -> None:
    first, style, revised = told("correct", 0.0), told("style", 0.5), told("correct", 1.0)
    assert current([first, style, revised]) == (revised, style)


def test_a_traces_component_is_another_than_the_sessions_of_the_same_name() -> None:
    own, of_trace = told("correct", 1.0), told("correct", 0.25, trace_id="t1")
    assert current([own, of_trace]) == (own, of_trace)
    assert total([own, of_trace]) == 1.0


def test_the_total_is_the_sum_by_weight_of_what_counts_now() -> None:
    assert total([told("a", 9.0), told("b", 0.5, weight=-2.0), told("a", 3.0)]) == 2.0


def test_a_reward_of_zero_is_told_and_no_reward_is_not() -> None:
    assert total([told("correct", 0.0)]) == 0.0
    assert total([]) is None
    assert total([told("correct", 1.0, trace_id="t1")]) is None


def test_a_component_that_is_only_watched_makes_no_reward() -> None:
    assert total([told("turns", 12.0, weight=0.0)]) is None
    assert total([told("turns", 12.0, weight=0.0), told("correct", 0.5)]) == 0.5
