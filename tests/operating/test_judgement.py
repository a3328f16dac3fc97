"""The instruments find what is planted: a bound that cannot be missed shows nothing."""

from __future__ import annotations

from dataclasses import replace

from tests.faults import canary
from tests.faults.records import Emission, Row
from tests.operating.judgement import (
    Asked,
    Call,
    Change,
    Sample,
    crowding,
    failures,
    labels,
    moved_by,
    stickiness,
    strays,
)
from tests.operating.life import Life


def life(*turns: tuple[float, str]) -> Life:
    made = Life()
    for at, state in turns:
        made.becomes(state, at)  # type: ignore[arg-type]
    return made


def call(number: int, *backends: str, session: str = "s", turn: int = 1, begun: bool = True) -> Call:
    """One second long; each backend was asked at its start, the last of them answers."""
    asked = tuple(Asked(name, number + 0.1, begun and name == backends[-1]) for name in backends)
    return Call(number, session, turn, float(number), number + 1.0, asked)


UP = {name: life((0.0, "up")) for name in ("a", "b", "c")}


# Failures


def test_a_call_that_fails_though_its_backend_lives_is_avoidable() -> None:
    found = failures([replace(call(10, "a"), complaint="status 503")], UP)
    assert len(found.avoidable) == 1
    assert found.broken == 0


def test_an_answer_that_had_begun_breaks_off_with_its_backend_and_nobody_could_help() -> None:
    for end in ("dead", "hung"):
        lives = UP | {"a": life((0.0, "up"), (10.5, end))}
        found = failures([replace(call(10, "a"), complaint="status 200, broken")], lives)
        assert (found.avoidable, found.broken) == ((), 1)


def test_a_call_whose_backend_died_before_its_first_byte_could_have_gone_to_another() -> None:
    lives = UP | {"a": life((0.0, "up"), (10.5, "dead"))}
    assert failures([replace(call(10, "a", begun=False), complaint="status 502")], lives).avoidable


def test_a_call_that_came_to_no_backend_is_avoidable_while_one_lives() -> None:
    assert failures([replace(call(10), complaint="status 503")], UP).avoidable
    dead = {"a": life((0.0, "up"), (5.0, "dead"))}
    found = failures([replace(call(10), complaint="status 503")], dead)
    assert (found.avoidable, found.hopeless) == ((), 1)


def test_a_call_under_which_two_died_is_not_tried_at_a_third_and_one_under_which_one_died_is_tried_again() -> None:
    dying = life((0.0, "up"), (10.5, "dead"))
    failed = replace(call(10, "a", begun=False), complaint="status 502")
    twice = replace(failed, unanswered=("a", "b"))
    assert failures([twice], UP | {"a": dying, "b": dying}).deadly == 1
    assert failures([twice], UP | {"a": dying}).avoidable
    assert failures([replace(failed, unanswered=("a",))], UP | {"a": dying, "b": dying}).avoidable


def test_a_backend_that_is_removed_or_drained_ends_what_it_has_begun() -> None:
    for state in ("removed", "draining"):
        lives = UP | {"a": life((0.0, "up"), (10.5, state))}
        assert failures([replace(call(10, "a"), complaint="status 200, broken")], lives).avoidable


# Stickiness


def test_a_session_that_changes_its_backend_while_that_lives_is_seen() -> None:
    found = stickiness([call(1, "a"), call(3, "a"), call(5, "b"), call(2, "c", session="t")], UP)
    assert found.pairs == 2
    assert [move.after.number for move in found.moves] == [5]
    assert found.share == 0.5


def test_a_second_try_elsewhere_is_a_move_though_the_first_was_at_the_right_one() -> None:
    assert stickiness([call(1, "a"), call(3, "a", "b")], UP).moves


def test_whoever_leaves_a_backend_that_died_in_between_is_not_counted() -> None:
    lives = UP | {"a": life((0.0, "up"), (2.5, "dead"), (2.7, "up"))}
    assert stickiness([call(1, "a"), call(3, "b")], lives).pairs == 0


def test_a_backend_that_drains_keeps_its_sessions() -> None:
    lives = UP | {"a": life((0.0, "up"), (2.5, "draining"))}
    assert stickiness([call(1, "a"), call(3, "b")], lives).moves


# Those who come and go


def test_a_move_while_another_backend_comes_or_goes_is_told_with_it() -> None:
    moves = stickiness([call(1, "a"), call(3, "b")], UP).moves
    assert moved_by([Change("added", "c", 2.0, 2.1)], moves, {})
    assert moved_by([Change("removed", "b", 2.0, 2.1)], moves, {})
    assert not moved_by([Change("added", "c", 7.0, 7.1)], moves, {})
    assert not moved_by([Change("drained", "a", 2.0, 2.1)], moves, {})


def test_a_session_whose_backend_was_taken_for_dead_moved_for_that_and_for_nobody_else() -> None:
    moves = stickiness([call(1, "a"), call(3, "b")], UP).moves
    added = [Change("added", "c", 2.0, 2.1)]
    assert not moved_by(added, moves, {"a": [2.5]})
    assert moved_by(added, moves, {"a": [0.5, 4.5], "b": [2.5]})


def test_a_call_at_a_backend_that_had_been_removed_is_a_stray() -> None:
    removed = [Change("removed", "a", 4.0, 5.0)]
    assert strays([call(6, "a")], removed, within=0.0)
    assert not strays([call(4, "a"), call(6, "b")], removed, within=0.0)
    assert not strays([call(6, "a")], removed, within=3.0)


def test_a_session_may_go_on_at_a_backend_that_drains_and_none_may_begin() -> None:
    drained = [Change("drained", "a", 4.0, 5.0)]
    assert strays([call(6, "a", turn=0)], drained, within=0.0)
    assert not strays([call(6, "a", turn=3)], drained, within=0.0)


# Calls in flight


def test_a_backend_with_more_than_twice_the_mean_is_found() -> None:
    samples = [Sample(10.0 + at, {"a": 9, "b": 1, "c": 2}) for at in range(10)]
    found = crowding(samples, UP, window=10.0)
    assert found.windows == 1
    assert found.ratio == 9 / 4
    assert found.where == "a: 9.0 of 4.0"


def test_a_moment_is_no_crowd() -> None:
    samples = [Sample(10.0 + at, {"a": 9 if at == 4 else 2, "b": 2, "c": 2}) for at in range(10)]
    assert crowding(samples, UP, window=10.0).ratio < 1.5


def test_a_window_counts_the_backends_that_were_up_all_through_it() -> None:
    lives = UP | {"b": life((0.0, "up"), (15.0, "dead"))}
    samples = [Sample(10.0 + at, {"a": 4, "b": 0, "c": 4}) for at in range(10)]
    assert crowding(samples, lives, window=10.0).ratio == 1.0


def test_a_window_in_which_calls_were_held_for_long_does_not_count() -> None:
    samples = [Sample(10.0 + at, {"a": 1, "b": 1, "c": 1}) for at in range(10)]
    assert crowding([*samples, Sample(20.0, {"a": 9})], UP, window=10.0).windows == 1


# Weights


def test_a_trace_with_another_version_than_sampled_it_is_found() -> None:
    emissions = [_emission(1, "step-1"), _emission(2, "step-1"), _emission(2, "step-2")]
    right = [_row(1, "step-1"), _row(2, "step-2")]
    assert labels(right, emissions).wrong == ()
    assert labels(right, emissions).versions == 2
    assert len(labels([_row(1, "step-2"), _row(2, None)], emissions).wrong) == 2


def _emission(number: int, version: str) -> Emission:
    ids = canary.sampled_ids(number, 2)
    return Emission(number, number, (canary.asked_id(number),), ids, (), "", weight_versions=((version, 0, 2),))


def _row(number: int, version: str | None) -> Row:
    return Row(
        trace_id=f"t{number}",
        session_id="s",
        turn=0,
        request_id=str(number),
        status="ok",
        started_at="2026-11-21T12:00:00Z",
        weight_version=version,
    )
