"""What holds of routing whatever backends there are: who moves when they come and go, and what each one's share is."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing import Candidate, Standing, order, score, spread

SESSIONS = [f"session-{number}" for number in range(60)]
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
weights = st.floats(min_value=0.01, max_value=100.0)
candidates = st.builds(
    Candidate, names, st.integers(min_value=0, max_value=50), weights, st.sampled_from(list(Standing))
)
fleets = st.lists(candidates, min_size=2, max_size=12, unique_by=lambda candidate: candidate.name)


def idle(fleet: list[Candidate]) -> list[Candidate]:
    """The same with nobody there."""
    return [Candidate(each.name, 0, each.weight) for each in fleet]


def best(session: str, fleet: list[Candidate]) -> str:
    return max(fleet, key=lambda candidate: score(session, candidate)).name


@given(fleets)
def test_a_backend_that_comes_takes_sessions_and_moves_none_between_others(fleet: list[Candidate]) -> None:
    *before, new = idle(fleet)
    for session in SESSIONS:
        assert best(session, [*before, new]) in (best(session, before), new.name)


@given(fleets)
def test_a_backend_that_goes_moves_its_own_sessions_alone(fleet: list[Candidate]) -> None:
    *left, gone = idle(fleet)
    for session in SESSIONS:
        was = best(session, [*left, gone])
        assert was == gone.name or best(session, left) == was


@given(fleets, weights)
def test_a_change_of_weight_moves_sessions_to_or_from_that_backend_alone(fleet: list[Candidate], weight: float) -> None:
    first, *others = idle(fleet)
    changed = Candidate(first.name, 0, weight)
    for session in SESSIONS:
        was, now = best(session, [first, *others]), best(session, [changed, *others])
        assert was == now or first.name in (was, now)


@given(fleets, st.sampled_from(SESSIONS), st.data())
def test_everyone_is_asked_once_and_whoever_is_down_last(
    fleet: list[Candidate], session: str, data: st.DataObject
) -> None:
    pinned = data.draw(st.sampled_from([None, *(candidate.name for candidate in fleet)]))
    for ordered in (order(session, fleet, pinned), spread(session, fleet)):
        assert sorted(each.name for each in ordered) == sorted(each.name for each in fleet)
        downs = [each.standing is Standing.DOWN for each in ordered]
        assert downs == sorted(downs)
    first = order(session, fleet, pinned)[0]
    own = next((each for each in fleet if each.name == pinned), None)
    if own is not None and own.standing is not Standing.DOWN:
        assert first is own


@given(fleets, st.sampled_from(SESSIONS))
def test_the_first_is_the_less_loaded_of_the_two_best_of_those_that_do_well(
    fleet: list[Candidate], session: str
) -> None:
    well = [each for each in fleet if each.standing is Standing.WELL]
    if len(well) < 2:
        return
    two = sorted(well, key=lambda each: score(session, each), reverse=True)[:2]
    assert order(session, fleet)[0] is min(two, key=lambda each: (each.crowd, two.index(each)))


@given(fleets, st.sampled_from(SESSIONS))
def test_a_call_that_no_other_follows_goes_to_the_least_loaded_of_all(fleet: list[Candidate], call: str) -> None:
    first = spread(call, fleet)[0]
    assert all((first.standing, first.crowd) <= (each.standing, each.crowd) for each in fleet)


@given(st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=2, max_size=5))
@settings(max_examples=5, deadline=None)
def test_shares_are_in_proportion_to_weights(shares: list[float]) -> None:
    fleet = [Candidate(f"gpu-{number}", 0, share) for number, share in enumerate(shares)]
    sessions = 4000
    counts = Counter(best(f"session-{number}", fleet) for number in range(sessions))
    for each in fleet:
        expected = sessions * each.weight / sum(shares)
        assert abs(counts[each.name] - expected) < 5 * expected**0.5 + 5


@given(st.integers(min_value=0, max_value=1000))
@settings(max_examples=10, deadline=None)
def test_300_sessions_over_40_backends_leave_none_with_twice_the_mean(salt: int) -> None:
    load = Counter[str]()
    for number in range(300):
        fleet = [Candidate(f"gpu-{gpu}", load[f"gpu-{gpu}"]) for gpu in range(40)]
        load[order(f"{salt}-{number}", fleet)[0].name] += 1
    assert max(load.values()) <= 2 * 300 / 40
