from typing import Any

from hypothesis import given

from storage.formats.trainers import verl
from storage.samples.sample import Sample
from tests.storage.formats.examples import QUICK, TOOL_BESIDE, TOOL_SAMPLE, as_json, same, samples
from tests.storage.formats.trainers.back import EXPERTS, MOE_SAMPLE, UNTOLD, UNTOLD_SAMPLE, from_split


def back(row: dict[str, Any]) -> Sample:
    return from_split(
        row["prompt_ids"], row["response_ids"], row["response_mask"], row["response_logprobs"], row["extra_fields"]
    )


def test_a_tool_sample_is_this_row() -> None:
    assert as_json(verl.row(TOOL_SAMPLE)) == {
        "prompt_ids": [1, 2, 3, 4],
        "response_ids": [10, 11, 12, 5, 6, 13, 14],
        "response_mask": [1, 1, 1, 0, 0, 1, 1],
        "response_logprobs": [-0.5, -0.25, -0.125, 0, 0, -1, -2],
        "routed_experts": None,
        "reward_score": 0.75,
        "num_turns": 4,
        "metrics": {},
        "extra_fields": TOOL_BESIDE,
    }


@QUICK
@given(samples())
def test_nothing_is_lost(sample: Sample) -> None:
    assert same(back(as_json(verl.row(sample))), sample)


def test_logprobs_with_a_gap_stand_beside() -> None:
    row = as_json(verl.row(UNTOLD_SAMPLE))
    assert row["response_logprobs"] is None
    assert row["extra_fields"]["logprobs"] == UNTOLD


def test_routed_experts_are_one_array() -> None:
    row = as_json(verl.row(MOE_SAMPLE))
    assert row["routed_experts"] == EXPERTS.tolist()
    assert [span["routed_experts"] for span in row["extra_fields"]["spans"]] == [None, None]
