from dataclasses import replace
from typing import Any

from hypothesis import given

from storage.formats.trainers import skyrl
from storage.samples.sample import Sample
from tests.storage.formats.examples import QUICK, TOOL_BESIDE, TOOL_SAMPLE, as_json, same, samples
from tests.storage.formats.trainers.back import EXPERTS, MOE_SAMPLE, UNTOLD, UNTOLD_SAMPLE, from_split


def back(row: dict[str, Any]) -> Sample:
    return from_split(
        row["prompt_token_ids"], row["response_ids"], row["loss_masks"], row["rollout_logprobs"], row["rollout"]
    )


def test_a_tool_sample_is_this_row() -> None:
    assert as_json(skyrl.row(TOOL_SAMPLE)) == {
        "prompt_token_ids": [1, 2, 3, 4],
        "response_ids": [10, 11, 12, 5, 6, 13, 14],
        "rewards": 0.75,
        "loss_masks": [1, 1, 1, 0, 0, 1, 1],
        "stop_reasons": "stop",
        "rollout_logprobs": [-0.5, -0.25, -0.125, 0, 0, -1, -2],
        "trajectory_ids": {"instance_id": "math", "repetition_id": 6575735577830989385},
        "rollout_expert_indices": None,
        "is_last_step": None,
        "rollout": TOOL_BESIDE,
    }


@QUICK
@given(samples())
def test_nothing_is_lost(sample: Sample) -> None:
    assert same(back(as_json(skyrl.row(sample))), sample)


def test_a_session_in_no_group_is_an_instance_of_its_own() -> None:
    assert skyrl.row(replace(TOOL_SAMPLE, group_id=None))["trajectory_ids"]["instance_id"] == "math-17"


def test_logprobs_with_a_gap_stand_beside() -> None:
    row = as_json(skyrl.row(UNTOLD_SAMPLE))
    assert row["rollout_logprobs"] is None
    assert row["rollout"]["logprobs"] == UNTOLD


def test_routed_experts_have_a_row_for_each_id_but_the_last() -> None:
    assert as_json(skyrl.row(MOE_SAMPLE))["rollout_expert_indices"] == EXPERTS.tolist()
