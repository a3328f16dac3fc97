"""Routing: stable, balanced, and never stuck on a backend that is down."""

from __future__ import annotations

from collections import Counter

from gateway.routing import Candidate, Standing, order

WELL, SLOW, DOWN = Standing

NAMES = ("a", "b", "c", "d")


def first(session_id: str, names: tuple[str, ...] = NAMES, pinned: str | None = None) -> str:
    return order(session_id, [Candidate(name) for name in names], pinned)[0].name


def test_a_session_goes_to_the_same_backend_whatever_order_they_are_listed_in() -> None:
    assert first("s1") == first("s1", NAMES[::-1])


def test_sessions_spread_over_all_backends() -> None:
    counts = Counter(first(f"session-{i}") for i in range(4000))
    assert set(counts) == set(NAMES)
    assert max(counts.values()) < 1.2 * min(counts.values())


def test_removing_a_backend_moves_only_its_own_sessions() -> None:
    sessions = [f"session-{i}" for i in range(1000)]
    before = {session: first(session) for session in sessions}
    after = {session: first(session, ("a", "b", "c")) for session in sessions}
    assert {session for session in sessions if before[session] != after[session]} == {
        session for session in sessions if before[session] == "d"
    }


def test_the_less_loaded_of_the_two_best_is_asked_first() -> None:
    best, second, third, fourth = (c.name for c in order("s1", [Candidate(name) for name in NAMES]))
    loaded = [Candidate(best, load=3), Candidate(second, load=1), Candidate(third), Candidate(fourth)]
    assert [c.name for c in order("s1", loaded)] == [second, third, fourth, best]


def test_a_pinned_backend_is_asked_first_however_loaded_it_is() -> None:
    loaded = [Candidate(name, load=9 if name == "c" else 0) for name in NAMES]
    assert order("s1", loaded, pinned="c")[0].name == "c"


def test_a_backend_that_is_down_is_asked_last_even_if_it_is_pinned() -> None:
    candidates = [Candidate(name, standing=DOWN if name == "c" else WELL) for name in NAMES]
    assert order("s1", candidates, pinned="c")[-1].name == "c"


def test_when_all_are_down_the_pinned_one_is_asked_first() -> None:
    candidates = [Candidate(name, standing=DOWN) for name in NAMES]
    assert order("s1", candidates, pinned="c")[0].name == "c"


def test_no_backends_are_no_candidates() -> None:
    assert order("s1", []) == []
