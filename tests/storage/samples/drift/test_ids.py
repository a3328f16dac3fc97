"""Where two sequences part, and where they are alike again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.token_ids import TokenIds
from storage.samples.drift.ids import common, meeting

few_ids = st.lists(st.integers(0, 3), max_size=12)


@given(few_ids, few_ids)
def test_what_two_begin_with_alike_is_counted(one: list[int], other: list[int]) -> None:
    alike = common(TokenIds(one), TokenIds(other))
    assert one[:alike] == other[:alike]
    assert alike in (len(one), len(other)) or one[alike] != other[alike]


@pytest.mark.parametrize(
    ("one", "other", "met"),
    [
        ([90, 91, 1, 2, 3, 4], [1, 2, 3, 4, 5], (2, 0)),
        ([1, 2, 3, 4], [90, 1, 2, 3, 4, 5], (0, 1)),
        ([90, 91, 1, 2, 3, 4], [80, 1, 2, 3, 4], (2, 1)),
        # Fewer ids than are no accident: the end of the answer alone.
        ([90, 91, 99], [80, 99, 5, 6], (2, 1)),
        ([90, 91, 92], [80, 81, 82], None),
        ([], [80, 81], None),
        ([90], [], None),
        # Of two places the nearest.
        ([9, 1, 2, 3, 4, 5, 6, 7, 8], [5, 6, 7, 8, 1, 2, 3, 4], (1, 4)),
    ],
)
def test_the_nearest_place_where_both_are_alike_again(
    one: list[int], other: list[int], met: tuple[int, int] | None
) -> None:
    assert meeting(TokenIds(one).numpy(), TokenIds(other).numpy()) == met


@given(few_ids, few_ids, st.lists(st.integers(4, 9), min_size=4, max_size=8, unique=True))
def test_two_meet_at_the_latest_where_their_common_end_begins(one: list[int], other: list[int], end: list[int]) -> None:
    met = meeting(TokenIds([*one, *end]).numpy(), TokenIds([*other, *end]).numpy())
    assert met is not None
    assert sum(met) <= len(one) + len(other)
