from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings

from adapters.schema import Reward, Trace
from storage.jobs import Begin, Finish, Pin
from storage.spool.entries import START_SIZE, BadEntry, EntryEncoder, decode_entry, is_trace, spooled_at
from tests.storage.examples import NOON, call, session, traces

encode = partial(EntryEncoder().encode, now=1.5)
SESSION = session(
    "s",
    run_id="r",
    group_id="g",
    group_size=4,
    metadata={"big": 2**70, "nested": [1.5, None]},
    rewards=(Reward("id", "name", 0.1, NOON),),
    sampling={"temperature": 1.0},
    backend="gpu-1",
    implicit=True,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(traces("s"))
def test_any_trace_comes_back_as_it_was(trace: Trace) -> None:
    job = decode_entry(encode(Finish(1, trace, None, SESSION)))
    assert isinstance(job, Finish)
    assert (job.trace, job.session, job.waiter) == (trace, SESSION, None)


def test_a_begin_comes_back_without_its_body() -> None:
    trace = call("s", status="running", body=b"x" * 5_000)
    job = decode_entry(encode(Begin(1, trace, None)))
    assert isinstance(job, Begin)
    assert job.trace == replace(trace, request=replace(trace.request, body=None))
    assert (job.session, job.again) == (None, True)


def test_a_pin_comes_back() -> None:
    job = decode_entry(encode(Pin(1, "s", "gpu-1", "gpu-2")))
    assert isinstance(job, Pin)
    assert (job.session_id, job.backend, job.instead_of) == ("s", "gpu-1", "gpu-2")


def test_what_no_database_could_have_is_refused() -> None:
    for odd in ({"metadata": {"not": object()}}, {"http_status": 2**80}, {"metadata": {"half": "\ud800"}}):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            encode(Finish(1, call("s", **odd), None))


def test_bytes_that_are_no_entry_are_told() -> None:
    whole = encode(Finish(1, call("s", [1, 2], [3]), None))
    for cut in range(len(whole)):
        with pytest.raises(BadEntry):
            decode_entry(whole[:cut])
    with pytest.raises(BadEntry):
        decode_entry(b"?" + whole[1:])


def test_an_entry_tells_by_its_start_when_it_was_spooled_and_whether_it_is_a_whole_trace() -> None:
    ended, begun = encode(Finish(1, call("s"), None)), encode(Begin(1, call("s"), None))
    assert (is_trace(ended[:START_SIZE]), is_trace(begun[:START_SIZE])) == (True, False)
    assert spooled_at(begun[:START_SIZE]) == 1.5
