"""How often one call is tried: as many backends as refuse, two that were sent it."""

from __future__ import annotations

from gateway.backend import Backend
from gateway.settings import BackendSettings
from gateway.tries import Tries

A, B, C, D = (Backend(BackendSettings(url=f"http://{name}")) for name in "abcd")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def tries(clock: Clock | None = None) -> Tries:
    """Of a call that has five seconds to get through."""
    return Tries(patience=5.0, clock=clock or Clock())


def test_where_nothing_was_sent_the_next_is_tried_and_the_next() -> None:
    call = tries()
    for backend in (A, B, C):
        assert call.may_try(backend)
        call.failed(ConnectionRefusedError(), sent=False)
    assert call.may_try(D)


def test_when_the_time_to_get_through_is_over_two_were_tried() -> None:
    clock = Clock()
    call = tries(clock)
    for backend in (A, B):
        assert call.may_try(backend)
        call.failed(ConnectionRefusedError(), sent=False)
        clock.now += 2.6
    assert not call.may_try(C)


def test_the_time_for_which_it_was_held_before_is_not_that_to_get_through() -> None:
    clock = Clock()
    call = tries(clock)
    clock.now += 60.0
    for backend in (A, B, C):
        assert call.may_try(backend)
        call.failed(ConnectionRefusedError(), sent=False)
    assert call.may_try(D)


def test_one_that_was_refused_and_then_waited_long_at_a_backend_that_died_is_sent_once_more() -> None:
    clock = Clock()
    call = tries(clock)
    assert call.may_try(A)
    call.failed(ConnectionRefusedError(), sent=False)
    assert call.may_try(B)
    clock.now += 600.0
    call.failed(ConnectionResetError(), sent=True)
    assert call.may_try(C)
    call.failed(ConnectionResetError(), sent=True)
    assert not call.may_try(D)


def test_what_was_sent_twice_is_not_sent_again() -> None:
    call = tries()
    for backend in (A, B):
        assert call.may_try(backend)
        call.failed(ConnectionResetError(), sent=True)
    assert not call.may_try(C)


def test_what_would_fail_there_again_is_tried_elsewhere_or_not_at_all() -> None:
    call = tries()
    assert call.may_try(A)
    call.failed(TimeoutError(), sent=True, elsewhere=True)
    assert not call.may_try(A)
    call = tries()
    assert call.may_try(A)
    call.failed(TimeoutError(), sent=True, elsewhere=True)
    assert call.may_try(B)


def test_what_a_server_said_outweighs_that_another_was_not_there() -> None:
    call, busy = tries(), ValueError("busy")
    call.failed(busy, sent=True)
    call.failed(ConnectionRefusedError(), sent=False, outweighs=False)
    assert call.failure is busy
