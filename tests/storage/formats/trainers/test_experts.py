from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from adapters.schema import RoutedExperts
from storage.formats.trainers.experts import Experts, routed_experts
from storage.samples.sample import Sample
from tests.storage.formats.examples import TOOL_SAMPLE
from tests.storage.formats.trainers.back import EXPERTS, MOE_SAMPLE


def told(*arrays: Experts | RoutedExperts | None) -> Sample:
    """The tool sample (spans 4 to 7 and 9 to 11), whose calls told these."""
    return replace(
        TOOL_SAMPLE,
        spans=tuple(
            replace(span, routed_experts=_told(array)) for span, array in zip(TOOL_SAMPLE.spans, arrays, strict=True)
        ),
    )


def _told(array: Experts | RoutedExperts | None) -> RoutedExperts | None:
    return RoutedExperts(array.tobytes(), array.shape, array.dtype.str) if isinstance(array, np.ndarray) else array


def positions(sample: Sample) -> Sequence[int] | None:
    """The first expert of each position."""
    experts = routed_experts(sample)
    return None if experts is None else experts[:, 0, 0].tolist()


def rows(first: int, count: int) -> Experts:
    return np.arange(first, first + count, dtype=np.int16).repeat(2).reshape(count, 1, 2)


def test_a_sample_has_a_row_for_each_id_but_the_last() -> None:
    experts = routed_experts(MOE_SAMPLE)
    assert experts is not None
    assert experts.dtype == np.uint8
    assert experts.tolist() == EXPERTS.tolist()


def test_a_position_keeps_what_the_first_call_told_of_it() -> None:
    assert positions(told(rows(0, 6), rows(100, 10))) == [0, 1, 2, 3, 4, 5, 106, 107, 108, 109]


def test_a_call_may_tell_its_last_id_too() -> None:
    assert positions(told(rows(0, 7), rows(100, 11))) == [0, 1, 2, 3, 4, 5, 106, 107, 108, 109]


def test_a_call_may_leave_out_what_an_earlier_one_told() -> None:
    assert positions(told(rows(0, 6), rows(6, 4))) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "second",
    [
        None,
        rows(7, 3),
        rows(0, 12),
        rows(0, 10).astype(np.int32),
        rows(0, 10).reshape(10, 2, 1),
        rows(0, 10).reshape(10, 2),
        rows(0, 10).astype(np.float32),
        RoutedExperts(b"\0", None, None),
        RoutedExperts(b"\0", (10, 1, 2), "|u1"),
        RoutedExperts(b"\0" * 20, (10, 1, 2), "nonsense"),
    ],
    ids=["untold", "gap", "too many", "dtype", "shape", "flat", "floats", "no shape", "too short", "no dtype"],
)
def test_what_does_not_fit_together_is_not_told_at_all(second: Experts | RoutedExperts | None) -> None:
    assert routed_experts(told(rows(0, 6), second)) is None
