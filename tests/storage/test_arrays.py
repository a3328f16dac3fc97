from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.arrays import BadPayload, Cutter, pack_logprobs
from tests.storage.examples import logprobs


@settings(deadline=None, max_examples=60)
@given(st.lists(logprobs, max_size=30).map(tuple))
def test_logprobs_keep_their_values_and_nulls(told: tuple[float | None, ...]) -> None:
    packed, array = pack_logprobs(told)
    assert repr(Cutter(array).logprobs(packed, len(told))) == repr(tuple(None if v is None else float(v) for v in told))


def test_what_an_engine_printed_of_a_float32_takes_four_bytes() -> None:
    packed, array = pack_logprobs((float(np.float32(-0.1)), None, float(np.float32(-17.25))))
    assert (packed.dtype, packed.nulls, len(array)) == ("f4", (1,), 12)


def test_a_double_stays_a_double() -> None:
    packed, array = pack_logprobs((-0.1, -1.0))
    assert (packed.dtype, len(array)) == ("f8", 16)


def test_what_no_float32_holds_is_a_double() -> None:
    for value in (-1e300, 5e-324, float("nan")):
        assert pack_logprobs((-1.0, value, None))[0].dtype == "f8"
    assert pack_logprobs((-1.0, float("-inf"), None))[0].dtype == "f4"


def test_a_null_is_not_a_nan() -> None:
    packed, array = pack_logprobs((float("nan"), None))
    nan, null = Cutter(array).logprobs(packed, 2)
    assert null is None
    assert nan is not None
    assert np.isnan(nan)


def test_a_part_that_is_too_short_is_an_error() -> None:
    with pytest.raises(BadPayload):
        Cutter(b"1234567").token_ids(2)
