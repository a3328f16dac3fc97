from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.schema import Sampling, Status, WeightSpan
from storage import codec
from storage.samples.sample import Finding, Sample
from tests.storage.samples.examples import built, choice, codes, nan_to_none, rows, turn

ASK = turn(0, [1, 2], [3, 4])
TOOL = turn(1, [1, 2, 3, 4, 5], [6])


def the(code: str, sample: Sample) -> Finding:
    (found,) = [finding for finding in sample.findings if finding.code == code]
    return found


def test_a_sample_without_fault_has_no_findings() -> None:
    assert codes(built(ASK, TOOL)[0]) == []


def test_a_sampled_token_without_logprob_is_fatal_and_not_given() -> None:
    untold = turn(1, [1, 2, 3, 4, 5], choices=(choice(0, [6, 7], logprobs=(None, -0.5)),))
    assert built(ASK, untold) == ()
    (sample,) = built(ASK, untold, fatal=True)
    finding = the("logprob_missing", sample)
    assert (finding.fatal, finding.trace_ids) == (True, ("t1",))
    assert finding.detail == "1 trained tokens of 1 call have no logprob."
    assert nan_to_none(sample.logprobs)[5:] == [None, -0.5]


def test_where_logprobs_are_optional_a_missing_one_is_a_warning_and_still_no_number() -> None:
    (sample,) = built(turn(0, [1], choices=(choice(0, [2, 3], logprobs=None),)), logprobs="optional")
    assert not the("logprob_missing", sample).fatal
    assert nan_to_none(sample.logprobs) == [0.0, None, None]


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), float("inf"), -1e300])
def test_a_logprob_that_is_no_finite_float32_was_not_told(value: float) -> None:
    (sample,) = built(turn(0, [1], choices=(choice(0, [2], logprobs=(value,)),)), fatal=True)
    assert nan_to_none(sample.logprobs) == [0.0, None]
    assert the("logprob_missing", sample).fatal


def test_a_positive_logprob_is_fatal_also_where_logprobs_are_optional() -> None:
    wrong = turn(0, [1], choices=(choice(0, [2, 3], logprobs=(0.5, -0.5)),))
    assert built(wrong, logprobs="optional") == ()
    (sample,) = built(wrong, fatal=True)
    assert the("logprob_positive", sample).trace_ids == ("t0",)
    assert sample.logprobs.tolist() == [0.0, 0.5, -0.5]


def test_a_sure_token_may_be_rounded_above_zero() -> None:
    assert codes(built(turn(0, [1], choices=(choice(0, [2], logprobs=(0.0005,)),)))[0]) == ["single_call"]


@pytest.mark.parametrize("status", ["ok", "client_disconnected", "backend_error"])
def test_of_a_session_with_a_trace_that_cannot_be_read_back_nothing_is_given(status: Status) -> None:
    unreadable = codec.unreadable(codec.columns(replace(TOOL, status=status)), "its base is missing")
    assert built(ASK, unreadable) == ()
    (sample,) = built(ASK, unreadable, fatal=True)
    found = the("session_incomplete", sample)
    assert (found.fatal, found.trace_ids) == (True, ("t1",))
    assert "t1: none: can't be read back: its base is missing" in found.detail


def test_a_refused_call_that_cannot_be_read_back_is_no_loss() -> None:
    refused = codec.unreadable(codec.columns(replace(TOOL, status="rejected")), "its base is missing")
    assert codes(built(ASK, refused)[0]) == ["single_call"]


@pytest.mark.parametrize("position", [0, 2, 4, 5])
def test_an_id_outside_the_vocabulary_is_fatal_wherever_it_stands(position: int) -> None:
    ids = [1, 2, 3, 4, 5, 6]
    ids[position] = 100
    ask, tool = turn(0, ids[:2], ids[2:4]), turn(1, ids[:5], ids[5:])
    assert built(ask, tool, vocab_size=100) == ()
    assert codes(built(ask, tool, vocab_size=101)[0]) == []
    (sample,) = built(ask, tool, vocab_size=100, fatal=True)
    finding = the("id_outside_vocabulary", sample)
    assert finding.detail == f"Id 100 at position {position} is not below 100."
    assert finding.trace_ids == (("t0",) if position < 4 else ("t1",))


def test_what_a_fatal_row_would_have_trained_the_next_one_trains() -> None:
    spoiled = turn(1, [1, 2, 3, 4, 5], choices=(choice(0, [6], logprobs=None),))
    fork = turn(2, [1, 2, 3, 4, 7], [8])
    assert rows(ASK, spoiled, fork, fatal=True) == ["1 2 [3] [4] 5 [6]", "1 2 3 4 7 [8]"]
    (sample,) = built(ASK, spoiled, fork)
    assert (sample.branch, sample.weight) == (0, 1.0)
    assert [span.trained for span in sample.spans] == [True, True]


def test_a_spoiled_answer_that_rows_share_costs_only_the_row_that_trains_it() -> None:
    spoiled = turn(0, [1, 2], choices=(choice(0, [3, 4], logprobs=(-0.5, None)),))
    assert rows(spoiled, TOOL, turn(2, [1, 2, 3, 4, 7], [8])) == ["1 2 3 4 7 [8]"]


def test_trained_tokens_of_several_weights_are_a_warning() -> None:
    old, new = replace(ASK, weight_version="7"), replace(TOOL, weight_version="8")
    (sample,) = built(old, new)
    finding = the("mixed_weight_versions", sample)
    assert (finding.fatal, finding.trace_ids) == (False, ("t0", "t1"))
    assert finding.detail == "2 versions sampled the trained tokens: 7, 8."
    assert codes(built(old, replace(new, weight_version="7"))[0]) == []
    assert codes(built(old, replace(new, weight_version=None))[0]) == []
    changing = turn(
        0, [1], choices=(choice(0, [2, 3], weight_versions=(WeightSpan("7", 0, 1), WeightSpan("8", 1, 2))),)
    )
    assert "mixed_weight_versions" in codes(built(changing)[0])


def test_raw_and_processed_logprobs_in_one_row_are_a_warning() -> None:
    """A8: before and after temperature are not the same policy's probabilities."""
    raw, processed = replace(ASK, logprobs_mode="raw"), replace(TOOL, logprobs_mode="processed")
    (sample,) = built(raw, processed)
    assert the("mixed_logprobs_modes", sample).trace_ids == ("t0", "t1")
    assert [span.logprobs_mode for span in sample.spans] == ["raw", "processed"]
    assert codes(built(raw, replace(processed, logprobs_mode=None))[0]) == []
    assert codes(built(raw, replace(processed, logprobs_mode="raw"))[0]) == []


def test_answers_that_the_engine_picked_say_so() -> None:
    def asked(**effective: int | None) -> Sampling:
        return Sampling(dict(effective), dict(effective))

    for picked in (asked(best_of=4), asked(best_of=4, n=2)):
        (sample,) = built(replace(ASK, sampling=picked), TOOL)
        assert the("selected", sample).trace_ids == ("t0",)
        assert "1 call out of several" in the("selected", sample).detail
    for given in (asked(best_of=1), asked(best_of=2, n=2), asked(n=4), asked(best_of=None)):
        assert codes(built(replace(ASK, sampling=given), TOOL)[0]) == []


def test_a_row_that_a_length_limit_cut_says_so() -> None:
    cut = turn(1, [1, 2, 3, 4, 5], choices=(choice(0, [6], finish_reason="length"),))
    (sample,) = built(ASK, cut)
    assert (sample.truncated, codes(sample)) == (True, ["truncated"])
    (whole,) = built(ASK, cut, turn(2, [1, 2, 3, 4, 5, 6, 7], [8]))
    assert (whole.truncated, codes(whole)) == (False, [])


def test_a_row_of_one_call_says_so_in_the_merged_view() -> None:
    assert codes(built(ASK)[0]) == ["single_call"]
    assert codes(built(ASK, TOOL, turn(2, [50], [51]))[1]) == ["single_call"]
    assert codes(built(ASK, style="traces")[0]) == []
