"""Traces as values with arrays, and all that was told of them beside."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.client import NotFound, Trace
from tests.gateway.api.harness import trace
from tests.gateway.client.harness import Reached


def test_traces_come_as_arrays_page_by_page(gateway: Reached) -> None:
    for number in range(5):
        gateway.loop.run(gateway.api.record(trace(number)))
    traces: list[Trace] = list(gateway.client.traces(session="s1", page_size=2))
    assert [each.turn for each in traces] == [0, 1, 2, 3, 4]
    first = traces[0]
    assert first.prompt_token_ids is not None
    assert first.prompt_token_ids.dtype == np.int32
    assert first.prompt_token_ids.tolist() == [1, 2, 3]
    (choice,) = first.choices
    assert choice.token_ids is not None
    assert choice.token_ids.tolist() == [4, 5]
    assert choice.logprobs is not None
    assert choice.logprobs.dtype == np.float64
    np.testing.assert_array_equal(choice.logprobs, [-0.5, np.nan])
    assert first.raw["request"]["body"] == {"model": "m", "temperature": 1.0}


def test_what_is_left_out_is_not_told(gateway: Reached) -> None:
    gateway.loop.run(gateway.api.record(trace(1)))
    (short,) = gateway.client.traces(exclude=["request", "prompt_token_ids", "choices.logprobs"])
    assert "request" not in short.raw
    assert short.prompt_token_ids is None
    assert short.choices[0].logprobs is None
    assert gateway.client.read_trace(short.trace_id).prompt_token_ids.tolist() == [1, 2, 3]


def test_a_trace_that_is_not_there_is_told_as_such(gateway: Reached) -> None:
    with pytest.raises(NotFound, match="There is no trace 'nope'"):
        gateway.client.read_trace("nope")
