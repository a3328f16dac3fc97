from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.schema import Choice, Trace
from adapters.token_ids import TokenIds
from storage.parents import Ends, ends_of
from tests.storage.examples import call


def parent(prompt: list[int], *earlier: Trace) -> tuple[str, int] | None:
    found = Ends(end for trace in earlier for end in ends_of(trace)).parent_of(TokenIds(prompt))
    return None if found is None else (found.trace_id, found.index)


FIRST = call("s", [1, 2, 3], [4, 5], [4, 6])
SECOND = call("s", [1, 2, 3, 4, 5, 7], [8])


def test_a_prompt_continues_the_choice_that_it_begins_with() -> None:
    assert parent([1, 2, 3, 4, 5, 9], FIRST) == (FIRST.trace_id, 0)
    assert parent([1, 2, 3, 4, 6], FIRST) == (FIRST.trace_id, 1)


def test_the_longest_end_wins() -> None:
    assert parent([1, 2, 3, 4, 5, 7, 8, 9], FIRST, SECOND) == (SECOND.trace_id, 0)
    assert parent([1, 2, 3, 4, 5, 7, 9], FIRST, SECOND) == (FIRST.trace_id, 0)


def test_a_prompt_that_differs_in_one_id_has_no_parent() -> None:
    assert parent([1, 2, 9, 4, 5, 6], FIRST) is None
    assert parent([1, 2, 3, 4], FIRST) is None
    assert parent([], FIRST) is None
    assert Ends(ends_of(FIRST)).parent_of(None) is None


def test_of_two_equal_ends_the_later_is_the_parent() -> None:
    again = call("s", [1, 2, 3], [4, 5])
    assert parent([1, 2, 3, 4, 5], FIRST, again) == (again.trace_id, 0)


def test_only_an_exact_trace_is_a_parent() -> None:
    assert ends_of(replace(FIRST, fidelity="partial")) == ()


def test_a_choice_that_sampled_nothing_is_no_parent() -> None:
    assert ends_of(call("s", [1, 2], [])) == ()
    assert ends_of(replace(FIRST, choices=(Choice(0),))) == ()


def test_a_choice_with_a_prompt_of_its_own_ends_behind_that() -> None:
    several = call("s", choices=(Choice(3, TokenIds([7]), prompt_token_ids=TokenIds([5, 6])),))
    assert parent([5, 6, 7, 8], several) == (several.trace_id, 3)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=6), st.data())
def test_the_parent_is_the_one_that_comparing_all_would_find(parts: list[list[int]], data: st.DataObject) -> None:
    earlier = []
    for part in parts:
        cut = data.draw(st.integers(0, len(part) - 1))
        earlier.append(call("s", part[:cut], part[cut:]))
    prompt = data.draw(st.lists(st.integers(0, 2), max_size=8))
    expected = None
    for trace, part in zip(earlier, parts, strict=True):
        if prompt[: len(part)] == part and (expected is None or len(part) >= expected[0]):
            expected = (len(part), (trace.trace_id, 0))
    assert parent(prompt, *earlier) == (expected and expected[1])
