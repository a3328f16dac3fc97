from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from adapters.schema import RoutedExperts, Sampling, WeightSpan
from adapters.token_ids import TokenIds
from storage.samples.rewards import total
from tests.storage.examples import session
from tests.storage.samples.examples import SESSION, built, choice, logprobs_of, marked, rows, turn
from tests.storage.samples.test_rewards import told

ASK = turn(0, [1, 2], [3, 4])
TOOL = turn(1, [1, 2, 3, 4, 5], [6])
DONE = turn(2, [1, 2, 3, 4, 5, 6, 7, 8], [9])


def test_a_session_that_only_grows_is_one_sample() -> None:
    (sample,) = built(ASK, TOOL, DONE)
    assert marked(sample) == "1 2 [3] [4] 5 [6] 7 8 [9]"
    assert sample.weight == 1.0
    assert sample.first_prompt_len == 2
    assert sample.trace_ids == ("t0", "t1", "t2")
    assert [(span.trace_id, span.index, span.start, span.end) for span in sample.spans] == [
        ("t0", 0, 2, 4),
        ("t1", 0, 5, 6),
        ("t2", 0, 8, 9),
    ]


def test_logprobs_stand_where_the_mask_is_1_and_are_0_elsewhere() -> None:
    (sample,) = built(ASK, TOOL)
    assert sample.logprobs.tolist() == [0.0, 0.0, *logprobs_of([3, 4]), 0.0, *logprobs_of([6])]
    assert (sample.token_ids.numpy().dtype, sample.mask.dtype, sample.logprobs.dtype) == (
        np.int32,
        np.int8,
        np.float32,
    )


def test_every_order_of_arrival_gives_the_same() -> None:
    traces = [ASK, TOOL, DONE, turn(3, [1, 2, 3, 4, 11], [12]), turn(4, [50], [51], [52])]
    expected = rows(*traces)
    for order in permutations(traces):
        assert rows(*order) == expected


def test_calls_of_one_turn_are_in_the_order_of_their_ids_and_those_without_a_turn_last() -> None:
    """Two gateways' spools may give a turn twice; a call that waits for its turn has none."""
    one, other, waiting = turn(1, [1], [2]), turn(2, [3], [4], turn=1), turn(0, [5], [6], turn=None)
    for order in permutations([one, other, waiting]):
        assert rows(*order) == ["1 [2]", "3 [4]", "5 [6]"]


def test_a_trace_that_arrives_late_finds_its_place() -> None:
    assert rows(ASK, DONE) == ["1 2 [3] [4] 5 6 7 8 [9]"]
    assert rows(ASK, DONE, TOOL) == ["1 2 [3] [4] 5 [6] 7 8 [9]"]


def test_parents_that_the_traces_name_are_not_believed() -> None:
    liar = replace(TOOL, parent_trace_id="t2", parent_index=5)
    assert rows(ASK, liar, DONE) == ["1 2 [3] [4] 5 [6] 7 8 [9]"]


def test_sub_agents_and_what_came_before_compaction_are_samples_of_their_own() -> None:
    """B8: all branches, not the longest chain alone."""
    sub_agent = turn(2, [20, 21], [22])
    sub_agent_again = turn(3, [20, 21, 22, 23], [24])
    compacted = turn(5, [1, 30], [31])
    assert rows(ASK, TOOL, sub_agent, sub_agent_again, replace(DONE, turn=4, trace_id="t4"), compacted) == [
        "1 2 [3] [4] 5 [6] 7 8 [9]",
        "20 21 [22] 23 [24]",
        "1 30 [31]",
    ]


def test_the_rows_of_a_session_that_forks_weigh_one_together() -> None:
    """B9: not K times."""
    samples = built(ASK, TOOL, turn(2, [1, 2, 3, 4, 50], [51]), turn(3, [60], [61]), turn(4, [70], [71]))
    assert [sample.weight for sample in samples] == [0.25, 0.25, 0.25, 0.25]
    assert [sample.branch for sample in samples] == [0, 1, 2, 3]
    assert {sample.session_id for sample in samples} == {"s"}
    assert {sample.group_id for sample in samples} == {"group"}


def test_what_two_rows_share_is_trained_in_the_first() -> None:
    first, second = built(ASK, TOOL, turn(2, [1, 2, 3, 4, 50], [51]))
    assert marked(first) == "1 2 [3] [4] 5 [6]"
    assert marked(second) == "1 2 3 4 50 [51]"
    assert [span.trained for span in second.spans] == [False, True]
    assert second.first_prompt_len == 2
    assert second.logprobs[2:4].tolist() == [0.0, 0.0]


def test_a_call_that_goes_on_from_a_branch_moves_no_other() -> None:
    fork = turn(2, [1, 2, 3, 4, 50], [51])
    later = turn(3, [1, 2, 3, 4, 5, 6, 60], [61])
    assert rows(ASK, TOOL, fork) == ["1 2 [3] [4] 5 [6]", "1 2 3 4 50 [51]"]
    assert rows(ASK, TOOL, fork, later) == ["1 2 [3] [4] 5 [6] 60 [61]", "1 2 3 4 50 [51]"]


def test_each_choice_of_a_call_is_a_branch() -> None:
    fan = turn(0, [1], [2], [3, 4], [5])
    goes_on = turn(1, [1, 3, 4, 6], [7])
    assert rows(fan, goes_on) == ["1 [2]", "1 [3] [4] 6 [7]", "1 [5]"]


def test_equal_answers_of_two_calls_are_both_trained_once() -> None:
    twin = turn(1, [1, 2], [3, 4])
    goes_on = turn(2, [1, 2, 3, 4, 5], [6])
    assert rows(ASK, twin) == ["1 2 [3] [4]", "1 2 [3] [4]"]
    assert rows(ASK, twin, goes_on) == ["1 2 [3] [4]", "1 2 [3] [4] 5 [6]"]
    assert built(ASK, twin, goes_on)[1].trace_ids == ("t1", "t2")


def test_of_equal_answers_the_last_before_it_is_continued() -> None:
    goes_on = turn(1, [1, 2, 3, 4, 5], [6])
    asked_again = turn(2, [1, 2], [3, 4])
    first, second = built(ASK, goes_on, asked_again)
    assert (first.trace_ids, second.trace_ids) == (("t0", "t1"), ("t2",))


def test_equal_choices_of_one_call_are_both_trained() -> None:
    assert rows(turn(0, [1], [2], [2])) == ["1 [2]", "1 [2]"]


def test_a_trace_that_is_given_twice_counts_once() -> None:
    assert rows(ASK, ASK, TOOL, ASK) == ["1 2 [3] [4] 5 [6]"]
    assert rows(replace(ASK, status="running", choices=()), ASK) == ["1 2 [3] [4]"]


def test_a_prompt_that_adds_nothing_to_an_answer_continues_it() -> None:
    assert rows(ASK, turn(1, [1, 2, 3, 4], [5])) == ["1 2 [3] [4] [5]"]


def test_a_call_without_sampled_ids_is_no_row() -> None:
    assert rows(turn(0, [1, 2], [])) == []
    assert rows(turn(0, [1, 2])) == []
    assert rows() == []
    assert rows(ASK, turn(1, [1, 2, 3, 4, 5], []), turn(2, [1, 2, 3, 4, 5, 6], [7])) == ["1 2 [3] [4] 5 6 [7]"]


def test_an_empty_prompt_is_a_prompt() -> None:
    (sample,) = built(turn(0, [], [1]), turn(1, [1, 2], [3]))
    assert marked(sample) == "[1] 2 [3]"
    assert sample.first_prompt_len == 0


def test_a_choice_with_a_prompt_of_its_own_follows_that() -> None:
    several = turn(
        0,
        None,
        choices=(choice(0, [2], prompt_token_ids=TokenIds([1])), choice(1, [6], prompt_token_ids=TokenIds([5]))),
    )
    assert rows(several, turn(1, [5, 6, 7], [8])) == ["1 [2]", "5 [6] 7 [8]"]


def test_a_choices_own_prompt_may_be_empty() -> None:
    assert rows(turn(0, [1], choices=(choice(0, [2], prompt_token_ids=TokenIds([])),))) == ["[2]"]


def test_one_call_may_continue_its_own_other_choice() -> None:
    several = turn(
        0,
        None,
        choices=(choice(0, [2], prompt_token_ids=TokenIds([1])), choice(1, [4], prompt_token_ids=TokenIds([1, 2, 3]))),
    )
    (sample,) = built(several)
    assert marked(sample) == "1 [2] 3 [4]"
    assert sample.trace_ids == ("t0",)


def test_ids_that_only_begin_alike_as_bytes_are_no_prefix() -> None:
    assert rows(turn(0, [1], [2]), turn(1, [1, 258], [3])) == ["1 [2]", "1 258 [3]"]


def test_a_trace_of_another_session_is_refused() -> None:
    with pytest.raises(ValueError, match="t1 is of session other"):
        built(ASK, replace(TOOL, session_id="other"))


def test_a_length_stop_is_neither_given_a_stop_token_nor_twice_one() -> None:
    """A7: nothing is appended that was not sampled or sent, whatever the template puts at the end of an answer."""
    end = 99
    stopped = turn(0, [1], [2, end])
    assert rows(stopped, turn(1, [1, 2, end, 3], [4])) == [f"1 [2] [{end}] 3 [4]"]
    doubled = turn(1, [1, 2, end, end, 3], [4])
    assert rows(stopped, doubled) == [f"1 [2] [{end}] {end} 3 [4]"]
    cut = turn(0, [1], choices=(choice(0, [2], finish_reason="length"),))
    assert rows(cut) == ["1 [2]"]
    assert rows(cut, turn(1, [1, 2, end, 3], [4])) == [f"1 [2] {end} 3 [4]"]


def test_history_that_was_rendered_anew_is_another_row() -> None:
    """A6: `{"a": 1}` sent back as `{"a":1}` is other ids, and never trained as if it had been sampled."""
    sampled = turn(0, [1, 2], [10, 11, 12])
    rendered_anew = turn(1, [1, 2, 10, 13, 5], [6])
    assert rows(sampled, rendered_anew) == ["1 2 [10] [11] [12]", "1 2 10 13 5 [6]"]


def test_a_sample_says_how_its_tokens_were_sampled() -> None:
    experts = RoutedExperts(b"\x00\x01", (1, 1, 2), "|u1")
    warm = turn(
        0,
        [1],
        choices=(choice(0, [2], routed_experts=experts, finish_reason="length"),),
        sampling=Sampling({"temperature": 1}, {"temperature": 0.7}),
        logprobs_mode="processed",
        served_model="policy-7b",
        model="policy",
    )
    (sample,) = built(warm)
    (span,) = sample.spans
    assert (span.temperature, span.logprobs_mode, span.routed_experts) == (0.7, "processed", experts)
    assert (span.finish_reason, sample.truncated, sample.model) == ("length", True, "policy-7b")
    for no_number in ("hot", True, None):
        untold = turn(0, [1], [2], sampling=Sampling({}, {"temperature": no_number}), model="policy")
        assert (built(untold)[0].spans[0].temperature, built(untold)[0].model) == (None, "policy")


def test_a_choices_own_weight_versions_move_with_it_and_else_the_traces_covers_it() -> None:
    pinned = turn(0, [1, 2], [3, 4], weight_version="7")
    changing = turn(
        1,
        [1, 2, 3, 4, 5],
        choices=(choice(0, [6, 7, 8], weight_versions=(WeightSpan("7", 0, 1), WeightSpan("8", 1, 3))),),
        weight_version="mixed",
    )
    untold = turn(2, [1, 2, 3, 4, 5, 6, 7, 8, 9], [10])
    (sample,) = built(pinned, changing, untold)
    assert sample.weight_versions == (WeightSpan("7", 2, 4), WeightSpan("7", 5, 6), WeightSpan("8", 6, 8))


def test_rewards_ride_on_the_rows_that_they_are_of() -> None:
    correct, early, late = told("correct", 1.0), told("step", 0.1, trace_id="t1"), told("step", 0.2, trace_id="t9")
    judged = replace(SESSION, rewards=(told("correct", 0.0), early, late, correct))
    first, second = built(ASK, TOOL, turn(9, [50], [51]), of=judged)
    assert (first.rewards, second.rewards) == ((correct, early), (correct, late))
    assert first.reward == second.reward == total(judged.rewards) == 1.0
    assert built(ASK)[0].reward is None


def test_a_sample_carries_what_its_session_is() -> None:
    labelled = session("s", run_id="r", group_id="g", attempt=2, status="failed", metadata={"task": 7})
    (sample,) = built(ASK, of=labelled)
    assert (sample.run_id, sample.group_id, sample.attempt, sample.status, sample.metadata) == (
        "r",
        "g",
        2,
        "failed",
        {"task": 7},
    )


def test_a_row_with_a_call_of_an_evaluation_is_an_evaluation() -> None:
    assert built(ASK)[0].purpose == "train"
    assert built(ASK, replace(TOOL, purpose="eval"))[0].purpose == "eval"
    assert built(replace(ASK, purpose="aux"), aux=True)[0].purpose == "aux"
