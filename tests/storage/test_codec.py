from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from adapters.schema import Choice, RecordedRequest, Trace
from adapters.token_ids import TokenIds
from storage import codec
from storage.arrays import BadPayload
from tests.storage.examples import call, traces


@settings(deadline=None, max_examples=60)
@given(traces("s"))
def test_a_trace_is_the_same_after_its_way_through_columns_and_payload(trace: Trace) -> None:
    assert codec.trace(codec.columns(trace), codec.payload(trace)) == trace


def test_none_told_is_not_nothing_told() -> None:
    for ids in (None, TokenIds()):
        for body in (None, b""):
            trace = call("s", choices=(Choice(0, ids, prompt_token_ids=ids),), request=RecordedRequest(body))
            trace = replace(trace, prompt_token_ids=ids)
            assert codec.trace(codec.columns(trace), codec.payload(trace)) == trace


def test_a_running_call_has_no_body_yet() -> None:
    trace = call("s", [1, 2], body=b"{...}", status="running", metadata={"task": 7})
    running = codec.trace(codec.columns(trace), codec.running_payload(trace))
    assert running.request == RecordedRequest(None)
    assert (running.status, running.metadata, running.prompt_token_ids) == ("running", {"task": 7}, None)


def test_what_json_can_not_have_is_refused() -> None:
    with pytest.raises((TypeError, ValueError)):
        codec.payload(call("s", metadata={"half a pair": "\ud83d"}))
    with pytest.raises((TypeError, ValueError)):
        codec.payload(call("s", metadata={"an object": object()}))


def test_a_payload_that_was_cut_is_an_error_of_its_own() -> None:
    whole = codec.payload(call("s", [1, 2, 3], [4, 5], body=b'{"a": 1}'))
    columns = codec.columns(call("s"))
    for cut in range(len(whole.text)):
        with pytest.raises(BadPayload):
            codec.trace(columns, replace(whole, text=whole.text[:cut]))
    for cut in range(len(whole.ids)):
        with pytest.raises(BadPayload):
            codec.trace(columns, replace(whole, ids=whole.ids[:cut]))


def test_the_digest_depends_on_every_part() -> None:
    whole = codec.payload(call("s", [1, 2, 3], [4, 5]))
    others = [
        replace(whole, ids=whole.ids + b"...."),
        replace(whole, logprobs=b"...."),
        replace(whole, experts=b"."),
        replace(whole, text=whole.text + b"."),
    ]
    assert len({payload.digest() for payload in (whole, *others)}) == 5
