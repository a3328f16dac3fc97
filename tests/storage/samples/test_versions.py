from __future__ import annotations

import pytest

from adapters.schema import WeightSpan
from storage.samples.versions import between, covers, versions_of
from tests.storage.samples.examples import built, choice, rows, turn

SPANS = (WeightSpan("7", 0, 1), WeightSpan("8", 1, 3))


def test_a_choices_own_spans_win_over_the_traces_version() -> None:
    trace = turn(0, [1], choices=(choice(0, [2, 3, 4], weight_versions=SPANS), choice(1, [5])), weight_version="8")
    assert versions_of(trace, trace.choices[0]) == SPANS
    assert versions_of(trace, trace.choices[1]) == (WeightSpan("8", 0, 1),)


def test_a_word_that_sums_several_versions_up_is_no_version() -> None:
    trace = turn(0, [1], choices=(choice(0, [2, 3, 4], weight_versions=SPANS), choice(1, [5])), weight_version="mixed")
    assert versions_of(trace, trace.choices[1]) == ()


def test_spans_that_an_engine_told_beyond_the_ids_are_cut_to_them() -> None:
    wild = (WeightSpan("9", 5, 9), WeightSpan("8", 1, 99), WeightSpan("7", -3, 1), WeightSpan("6", 2, 2))
    trace = turn(0, [1], choices=(choice(0, [2, 3], weight_versions=wild),))
    assert versions_of(trace, trace.choices[0]) == (WeightSpan("7", 0, 1), WeightSpan("8", 1, 2))


def test_an_untold_version_is_no_span_and_told_none_is_the_traces() -> None:
    untold = turn(0, [1], [2])
    assert versions_of(untold, untold.choices[0]) == ()
    told_none = turn(0, [1], choices=(choice(0, [2], weight_versions=()),), weight_version="7")
    assert versions_of(told_none, told_none.choices[0]) == (WeightSpan("7", 0, 1),)


def test_spans_cover_only_without_a_gap() -> None:
    assert covers(SPANS, 0, 3)
    assert not covers(SPANS, 0, 4)
    assert covers(SPANS, 1, 3)
    assert not covers((WeightSpan("7", 0, 1), WeightSpan("8", 2, 3)), 0, 3)
    assert not covers((), 5, 6)


@pytest.mark.parametrize(
    ("version", "least", "most", "within"),
    [
        ("10", "9", None, True),
        ("9", "10", None, False),
        ("9", "9", "9", True),
        ("010", "9", "10", True),
        ("step-2", "step-1", "step-3", True),
        ("step-10", "step-9", None, False),
        ("9", None, "8", False),
        ("1" + "0" * 5000, "9", None, True),
        ("0", "00", "0", True),
    ],
)
def test_whole_numbers_compare_as_numbers_and_all_else_as_text(
    version: str, least: str | None, most: str | None, within: bool
) -> None:
    assert between(version, least, most) is within


OLD = turn(0, [1], [2], weight_version="9")
NEW = turn(1, [1, 2, 3], [4], weight_version="10")


def test_a_sample_is_in_when_all_its_trained_tokens_are() -> None:
    assert rows(OLD, NEW, min_weight_version="9", max_weight_version="10") == ["1 [2] 3 [4]"]
    assert rows(OLD, NEW, min_weight_version="10") == []
    assert rows(OLD, NEW, max_weight_version="9") == []


def test_a_row_whose_old_part_another_row_trains_is_in() -> None:
    fork = turn(2, [1, 2, 5], [6], weight_version="10")
    (sample,) = built(OLD, NEW, fork, min_weight_version="10")
    assert [(span.trace_id, span.trained) for span in sample.spans] == [("t0", False), ("t2", True)]
    assert sample.weight == 1.0


def test_a_token_whose_version_nobody_told_is_outside_every_range() -> None:
    untold = turn(0, [1], [2])
    partly = turn(1, [5], choices=(choice(0, [6, 7], weight_versions=(WeightSpan("9", 0, 1),)),))
    assert rows(untold, partly, min_weight_version="0") == []
    assert rows(untold, partly) == ["1 [2]", "5 [6] [7]"]
