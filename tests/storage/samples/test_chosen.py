from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.schema import Choice, Status
from adapters.token_ids import TokenIds
from storage.samples.build import samples_of
from tests.storage.samples.examples import SESSION, built, choice, codes, marked, rows, turn

ASK = turn(0, [1, 2], [3, 4])
TOOL = turn(1, [1, 2, 3, 4, 5], [6])
UNSURE = turn(1, [1, 2, 3, 4, 5], [6], fidelity="partial", fidelity_reason="1 completion ids where 2 were counted")


def test_the_earlier_attempt_of_a_retry_is_not_trained() -> None:
    """B4: an SDK's second try is a trace of its own, and does not fork the session."""
    second_try = turn(1, [1, 2], [7], retry_of="t0")
    goes_on = turn(2, [1, 2, 7, 8], [9])
    assert rows(ASK, second_try, goes_on) == ["1 2 [7] 8 [9]"]
    assert rows(ASK, second_try, goes_on, retries=True) == ["1 2 [3] [4]", "1 2 [7] 8 [9]"]


def test_an_equal_call_that_is_no_retry_is_a_call() -> None:
    """B4: after compaction an identical body may be a new one."""
    assert rows(ASK, turn(1, [1, 2], [7])) == ["1 2 [3] [4]", "1 2 [7]"]


def test_a_rollout_that_is_tried_again_under_its_id_has_its_own_calls_alone() -> None:
    """F12: and a label that comes after the calls takes none of them away."""
    again = turn(1, [1, 2], [7], attempt=1)
    assert rows(ASK, TOOL, again) == ["1 2 [7]"]
    labelled = replace(SESSION, attempt=3)
    assert [len(sample.trace_ids) for sample in samples_of(labelled, [ASK, TOOL])] == [2]


def test_of_three_attempts_the_last_is_trained() -> None:
    tries = turn(0, [1], [2]), turn(1, [1], [3], retry_of="t0"), turn(2, [1], [4], retry_of="t1")
    assert rows(*tries) == ["1 [4]"]
    assert rows(turn(0, [1], [2], retry_of="t0")) == ["1 [2]"]


def test_a_retry_that_failed_supersedes_still() -> None:
    """The agent asked again, so it has not had the first answer."""
    failed = turn(1, [1, 2], retry_of="t0", status="backend_error", fidelity="none")
    assert rows(ASK, failed) == []


def test_title_generators_and_probes_are_not_trained() -> None:
    """B7: they would get the rollout's reward."""
    title = turn(1, [30, 31], [32], purpose="aux")
    assert rows(ASK, title) == ["1 2 [3] [4]"]
    assert rows(ASK, title, aux=True) == ["1 2 [3] [4]", "30 31 [32]"]
    assert [sample.weight for sample in built(ASK, title)] == [1.0]


def test_what_is_left_out_by_choice_is_no_loss() -> None:
    aux = turn(2, [30], [31], purpose="aux", fidelity="none")
    superseded = turn(3, [40], [41], fidelity="partial")
    retry = turn(4, [40], [42], retry_of="t3")
    cut = turn(5, [50], [51], status="client_disconnected")
    assert [codes(sample) for sample in built(ASK, TOOL, aux, superseded, retry, cut)] == [[], ["single_call"]]


def test_left_out_tokens_in_a_later_prompt_are_only_prompt() -> None:
    aux = replace(TOOL, purpose="aux")
    assert rows(ASK, aux, turn(2, [1, 2, 3, 4, 5, 6, 7], [8])) == ["1 2 [3] [4] 5 6 7 [8]"]


def test_a_cut_short_call_is_trained_only_where_asked_for_and_exact() -> None:
    cut = turn(1, [1, 2, 3, 4, 5], [6], status="client_disconnected")
    assert rows(ASK, cut) == ["1 2 [3] [4]"]
    assert rows(ASK, cut, cut=True) == ["1 2 [3] [4] 5 [6]"]
    assert codes(built(ASK, cut, cut=True)[0]) == []


@pytest.mark.parametrize("status", ["client_disconnected", "backend_error", "interrupted"])
@pytest.mark.parametrize("cut", [False, True])
def test_a_cut_short_call_whose_tokens_are_not_all_known_is_lost(status: Status, cut: bool) -> None:
    part = turn(1, [1, 2, 3, 4, 5], [6], status=status, fidelity="partial", fidelity_reason="no count")
    text_only = turn(2, None, choices=(Choice(0, text="half a word"),), status=status, fidelity="none")
    (sample,) = built(ASK, part, text_only, cut=cut)
    assert (marked(sample), sample.findings[0].trace_ids) == ("1 2 [3] [4]", ("t1", "t2"))
    assert rows(ASK, part, complete=True, cut=cut) == []


def test_what_goes_on_from_half_an_answer_starts_a_new_row() -> None:
    part = turn(1, [1, 2, 3, 4, 5], [6], status="client_disconnected", fidelity="partial")
    assert rows(ASK, part, turn(2, [1, 2, 3, 4, 5, 6, 7], [8])) == ["1 2 [3] [4]", "1 2 3 4 5 6 7 [8]"]
    asked_again = turn(2, [1, 2, 3, 4, 5], [6, 9], retry_of="t1")
    (sample,) = built(ASK, part, asked_again, turn(3, [1, 2, 3, 4, 5, 6, 9, 7], [8]))
    assert (marked(sample), codes(sample)) == ("1 2 [3] [4] 5 [6] [9] 7 [8]", [])


def test_a_call_that_was_refused_or_never_sent_is_no_loss() -> None:
    refused = turn(1, [1], status="backend_error", http_status=400, fidelity="none")
    never_sent = turn(2, None, status="rejected", fidelity="none")
    died = turn(3, None, status="interrupted", fidelity="none")
    for cut in (False, True):
        assert codes(built(ASK, refused, never_sent, died, cut=cut)[0]) == ["single_call"]


def test_a_trace_that_is_not_exact_has_no_token_trained_and_every_row_says_so() -> None:
    goes_on = turn(2, [1, 2, 3, 4, 5, 6, 7], [8])
    first, second = built(ASK, UNSURE, goes_on)
    for sample in (first, second):
        finding = sample.findings[0]
        assert (finding.code, finding.fatal, finding.trace_ids) == ("session_incomplete", False, ("t1",))
        assert "t1: partial: 1 completion ids where 2 were counted" in finding.detail


def test_what_follows_a_trace_that_is_not_exact_starts_a_new_row() -> None:
    goes_on = turn(2, [1, 2, 3, 4, 5, 6, 7], [8])
    further = turn(3, [1, 2, 3, 4, 5, 6, 7, 8, 9], [10])
    assert rows(ASK, UNSURE, goes_on, further) == ["1 2 [3] [4]", "1 2 3 4 5 6 7 [8] 9 [10]"]


def test_what_follows_a_prompt_whose_answer_is_not_known_starts_a_new_row() -> None:
    blind = replace(UNSURE, choices=(Choice(0, text="six"),))
    assert rows(ASK, blind, turn(2, [1, 2, 3, 4, 5, 6, 7], [8])) == ["1 2 [3] [4]", "1 2 3 4 5 6 7 [8]"]
    assert rows(ASK, replace(blind, choices=()), turn(2, [1, 2, 3, 4, 5, 6, 7], [8]))[1] == "1 2 3 4 5 6 7 [8]"
    asked_again = turn(2, [1, 2, 3, 4, 5], [6])
    assert rows(ASK, blind, asked_again) == ["1 2 [3] [4] 5 [6]"]


def test_an_exact_answer_beside_an_equal_one_that_is_not_is_continued() -> None:
    assert rows(ASK, UNSURE, replace(TOOL, trace_id="t3", turn=3), turn(4, [1, 2, 3, 4, 5, 6, 7], [8])) == [
        "1 2 [3] [4] 5 [6] 7 [8]"
    ]


def test_a_session_that_lost_tokens_is_left_out_where_it_has_to_be_complete() -> None:
    assert rows(ASK, UNSURE, complete=True) == []
    assert rows(ASK, TOOL, complete=True) == ["1 2 [3] [4] 5 [6]"]


def test_a_trace_that_is_called_exact_but_is_not_whole_is_lost_as_far_as_it_is() -> None:
    half = turn(0, [1], choices=(choice(0, [2]), Choice(1)))
    (sample,) = built(half)
    assert sample.trace_ids == ("t0",)
    assert "choice 1 of a trace that is called exact has no ids" in sample.findings[0].detail
    without_prompt = turn(1, None, [9])
    assert "has no prompt ids" in built(ASK, without_prompt)[0].findings[0].detail


def test_a_call_that_runs_is_lost_to_a_session_that_has_ended_and_yet_to_come_in_an_open_one() -> None:
    running = turn(1, [1, 2, 3, 4, 5], status="running", fidelity="none")
    assert "t1: the call is still running" in built(ASK, running)[0].findings[0].detail
    assert codes(built(ASK, running, of=replace(SESSION, status="open"))[0]) == ["single_call"]


def test_of_many_lost_traces_ten_give_their_reasons_and_all_their_ids() -> None:
    lost = [turn(number, [number], fidelity="none", fidelity_reason=f"reason {number}.") for number in range(1, 13)]
    finding = built(ASK, *lost)[0].findings[0]
    assert "reason 10." in finding.detail
    assert "reason 11." not in finding.detail
    assert "and 2 more" in finding.detail
    assert len(finding.trace_ids) == 12


def test_a_prompt_of_a_choices_own_that_is_lost_is_followed_by_a_new_row() -> None:
    several = turn(1, None, choices=(choice(0, [6], prompt_token_ids=TokenIds([1, 2, 3, 4, 5])),), fidelity="partial")
    assert rows(ASK, several, turn(2, [1, 2, 3, 4, 5, 6, 7], [8])) == ["1 2 [3] [4]", "1 2 3 4 5 6 7 [8]"]
