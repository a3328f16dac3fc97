"""What holds of the samples of any session at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.schema import Choice, Trace
from adapters.token_ids import TokenIds
from storage.samples.build import samples_of
from storage.samples.options import SampleOptions
from storage.samples.sample import Sample
from tests.storage.samples.examples import SESSION
from tests.storage.samples.sessions import sessions

Key = tuple[str, int]
FEW = settings(deadline=None, max_examples=60)

options = st.builds(
    SampleOptions,
    style=st.sampled_from(["merged", "traces"]),
    aux=st.booleans(),
    retries=st.booleans(),
    cut=st.booleans(),
    logprobs=st.sampled_from(["required", "optional"]),
    complete=st.booleans(),
    fatal=st.booleans(),
    min_weight_version=st.sampled_from([None, "9", "10"]),
    max_weight_version=st.sampled_from([None, "10", "9"]),
    vocab_size=st.sampled_from([None, 2, 3]),
)
unfiltered = st.builds(
    SampleOptions,
    style=st.sampled_from(["merged", "traces"]),
    aux=st.booleans(),
    retries=st.booleans(),
    cut=st.booleans(),
    fatal=st.just(True),
)
any_options = options | unfiltered


def kept(traces: Sequence[Trace], options: SampleOptions) -> dict[Key, tuple[Trace, Choice]]:
    """The choices with sampled tokens that are to be trained, told a second time and in other words."""
    superseded = {trace.retry_of for trace in traces}
    statuses = {"ok", "client_disconnected", "backend_error", "interrupted"} if options.cut else {"ok"}
    return {
        (trace.trace_id, choice.index): (trace, choice)
        for trace in traces
        if trace.fidelity == "exact" and trace.status in statuses
        if options.aux or trace.purpose != "aux"
        if options.retries or trace.trace_id not in superseded
        for choice in trace.choices
        if choice.token_ids
    }


def prompt_of(trace: Trace, choice: Choice) -> TokenIds:
    prompt = trace.prompt_token_ids if choice.prompt_token_ids is None else choice.prompt_token_ids
    assert prompt is not None
    return prompt


def told(sample: Sample) -> dict[str, Any]:
    """All of it, as values that compare."""
    values = {field.name: getattr(sample, field.name) for field in fields(Sample)}
    return {name: value.tobytes() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def path(sample: Sample) -> tuple[Key, ...]:
    return tuple((span.trace_id, span.index) for span in sample.spans)


@FEW
@given(sessions(), unfiltered)
def test_every_sampled_token_is_trained_exactly_once(traces: list[Trace], options: SampleOptions) -> None:
    samples = samples_of(SESSION, traces, options)
    expected = kept(traces, options)
    trained = Counter((s.trace_id, s.index) for sample in samples for s in sample.spans if s.trained)
    assert trained == dict.fromkeys(expected, 1)
    assert sum(int(sample.mask.sum()) for sample in samples) == sum(
        len(c.token_ids or ()) for _, c in expected.values()
    )


@FEW
@given(sessions(), any_options)
def test_ids_at_each_span_are_the_traces_own_after_its_very_prompt(traces: list[Trace], options: SampleOptions) -> None:
    expected = kept(traces, options)
    for sample in samples_of(SESSION, traces, options):
        mask = np.zeros(len(sample.token_ids), dtype=np.int8)
        for span in sample.spans:
            trace, choice = expected[span.trace_id, span.index]
            assert sample.token_ids[: span.start] == prompt_of(trace, choice)
            assert sample.token_ids[span.start : span.end] == choice.token_ids
            mask[span.start : span.end] = span.trained
        assert sample.mask.tolist() == mask.tolist()
        assert sample.spans[-1].end == len(sample.token_ids)
        assert sample.spans[-1].trained
        assert sample.first_prompt_len == sample.spans[0].start


@FEW
@given(sessions(), any_options)
def test_logprobs_are_the_traces_own_where_they_are_trained(traces: list[Trace], options: SampleOptions) -> None:
    expected = kept(traces, options)
    for sample in samples_of(SESSION, traces, options):
        assert not sample.logprobs[sample.mask == 0].any()
        for span in sample.spans:
            _, choice = expected[span.trace_id, span.index]
            values = np.array(choice.logprobs or [None] * (span.end - span.start), dtype=np.float32)
            if span.trained:
                assert np.array_equal(sample.logprobs[span.start : span.end], values, equal_nan=True)


@FEW
@given(sessions(), any_options)
def test_the_weights_of_what_is_given_sum_to_one(traces: list[Trace], options: SampleOptions) -> None:
    samples = samples_of(SESSION, traces, options)
    assert not samples or abs(sum(sample.weight for sample in samples) - 1.0) < 1e-9
    assert [sample.branch for sample in samples] == list(range(len(samples)))


@FEW
@given(sessions(), any_options, st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(traces: list[Trace], options: SampleOptions, random: Any) -> None:
    expected = [told(sample) for sample in samples_of(SESSION, traces, options)]
    random.shuffle(traces)
    assert [told(sample) for sample in samples_of(SESSION, traces, options)] == expected


@FEW
@given(sessions(), options)
def test_nothing_unfit_is_given_and_nothing_given_is_trained_twice_or_for_nothing(
    traces: list[Trace], options: SampleOptions
) -> None:
    samples = samples_of(SESSION, traces, options)
    trained = Counter((s.trace_id, s.index) for sample in samples for s in sample.spans if s.trained)
    assert set(trained.values()) <= {1}
    for sample in samples:
        assert sample.mask.any()
        assert options.fatal or not any(finding.fatal for finding in sample.findings)
        assert options.fatal or options.logprobs == "optional" or not np.isnan(sample.logprobs).any()
        assert options.fatal or options.vocab_size is None or max(sample.token_ids) < options.vocab_size
        if options.complete:
            assert "session_incomplete" not in {finding.code for finding in sample.findings}


@FEW
@given(sessions(), options)
def test_a_filter_takes_rows_away_and_makes_none(traces: list[Trace], options: SampleOptions) -> None:
    loose = SampleOptions(style=options.style, aux=options.aux, retries=options.retries, cut=options.cut, fatal=True)
    paths = {tuple((s.trace_id, s.index) for s in sample.spans) for sample in samples_of(SESSION, traces, loose)}
    given_paths = [
        tuple((s.trace_id, s.index) for s in sample.spans) for sample in samples_of(SESSION, traces, options)
    ]
    assert len(given_paths) == len(set(given_paths))
    assert set(given_paths) <= paths
