"""How a backend does, by what came of its calls and its probes (docs/promises.md F6, F7)."""

from __future__ import annotations

from gateway.pulse import Pulse

QUIET = 10.0


def test_refused_once_is_down_for_a_pause_and_then_takes_a_single_call() -> None:
    pulse = Pulse()
    pulse.refused("connection refused", 100.0)
    assert (pulse.health(100.9), pulse.takes_calls(100.9)) == ("down", False)
    assert (pulse.health(101.0), pulse.takes_calls(101.0)) == ("half_open", True)
    pulse.tried = True
    assert not pulse.takes_calls(101.0)
    pulse.answered(101.5)
    assert (pulse.health(101.5), pulse.takes_calls(101.5), pulse.last_error) == ("up", True, None)


def test_one_that_gives_up_a_connection_is_down_at_the_second_time_in_a_row() -> None:
    pulse = Pulse()
    pulse.struck("closed", 100.0)
    assert (pulse.health(100.0), pulse.last_error) == ("up", "closed")
    pulse.answered(101.0)
    pulse.struck("closed", 102.0)
    assert pulse.health(102.0) == "up"
    pulse.struck("closed", 103.0)
    assert pulse.health(103.0) == "down"


def test_however_long_it_lets_others_wait_it_is_slow_and_never_down() -> None:
    pulse = Pulse()
    for _ in range(100):
        pulse.kept_waiting("no answer to /health within 2 s")
    assert (pulse.health(100.0), pulse.slow, pulse.failures) == ("up", True, 0)
    pulse.answered(100.0)
    assert not pulse.slow


def test_a_trial_that_fails_is_a_longer_pause() -> None:
    pulse = Pulse()
    pulse.refused("gone", 100.0)
    pulse.tried = True
    pulse.struck("closed", 101.0)
    assert not pulse.tried
    assert (pulse.health(102.9), pulse.health(103.0)) == ("down", "half_open")


def test_that_many_calls_were_there_when_it_died_keeps_nobody_away_for_longer() -> None:
    pulse = Pulse()
    for _ in range(30):
        pulse.struck("closed", 100.0)
        pulse.refused("connection refused", 100.1)
    assert (pulse.health(101.0), pulse.health(102.1)) == ("down", "half_open")


def test_a_probe_opens_it_by_half_and_a_second_one_wholly_where_no_call_does() -> None:
    pulse = Pulse()
    pulse.refused("gone", 100.0)
    assert (pulse.is_alive(101.0), pulse.is_due(100.5, QUIET), pulse.is_due(101.0, QUIET)) == (False, False, True)
    pulse.spoke(101.0)
    assert (pulse.health(101.0), pulse.is_alive(101.0)) == ("half_open", True)
    pulse.spoke(102.0)
    assert pulse.health(102.0) == "up"


def test_only_who_is_quiet_is_probed_and_who_failed_once_is_probed_at_once() -> None:
    pulse = Pulse()
    assert pulse.is_due(100.0, QUIET), "nothing was ever heard of it"
    pulse.answered(100.0)
    assert (pulse.is_due(109.9, QUIET), pulse.is_due(110.0, QUIET)) == (False, True)
    pulse.answered(120.0)
    pulse.struck("closed", 120.0)
    assert pulse.is_due(120.0, QUIET)
    pulse.answered(121.0)
    pulse.doubted()
    assert pulse.is_due(121.0, QUIET)
