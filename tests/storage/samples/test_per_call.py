from __future__ import annotations

from dataclasses import replace

from tests.storage.samples.examples import built, codes, marked, rows, turn

ASK = turn(0, [1, 2], [3, 4])
TOOL = turn(1, [1, 2, 3, 4, 5], [6], [7])
DONE = turn(2, [1, 2, 3, 4, 5, 6, 8], [9])


def test_each_choice_is_a_sample_with_its_whole_prompt_at_mask_0() -> None:
    assert rows(DONE, TOOL, ASK, style="traces") == [
        "1 2 [3] [4]",
        "1 2 3 4 5 [6]",
        "1 2 3 4 5 [7]",
        "1 2 3 4 5 6 8 [9]",
    ]


def test_the_weights_of_a_sessions_calls_sum_to_one_too() -> None:
    samples = built(ASK, TOOL, DONE, style="traces")
    assert [sample.weight for sample in samples] == [0.25] * 4
    assert [sample.trace_ids for sample in samples] == [("t0",), ("t1",), ("t1",), ("t2",)]
    assert [sample.first_prompt_len for sample in samples] == [2, 5, 5, 7]


def test_both_views_train_the_same_tokens() -> None:
    merged, single = built(ASK, TOOL, DONE), built(ASK, TOOL, DONE, style="traces")
    assert [marked(sample) for sample in merged] == ["1 2 [3] [4] 5 [6] 8 [9]", "1 2 3 4 5 [7]"]
    assert sum(int(sample.mask.sum()) for sample in merged) == sum(int(sample.mask.sum()) for sample in single) == 5


def test_lost_calls_are_told_here_too() -> None:
    samples = built(ASK, TOOL, replace(DONE, fidelity="partial"), style="traces")
    assert [codes(sample) for sample in samples] == [["session_incomplete"]] * 3
