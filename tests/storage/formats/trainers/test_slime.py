from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from storage.formats.trainers import slime
from storage.samples.sample import Sample
from tests.storage.formats.examples import QUICK, TOOL_BESIDE, TOOL_SAMPLE, as_json, same, samples
from tests.storage.formats.trainers.back import EXPERTS, MOE_SAMPLE, UNTOLD, UNTOLD_SAMPLE, from_split


def back(row: dict[str, Any]) -> Sample:
    split = len(row["tokens"]) - row["response_length"]
    return from_split(
        row["tokens"][:split], row["tokens"][split:], row["loss_mask"], row["rollout_log_probs"], row["metadata"]
    )


def test_a_tool_sample_is_this_row() -> None:
    assert as_json(slime.row(TOOL_SAMPLE)) == {
        "group_index": None,
        "index": None,
        "rollout_id": 6575735577830989385,
        "prompt": "",
        "tokens": [1, 2, 3, 4, 10, 11, 12, 5, 6, 13, 14],
        "response": "",
        "response_length": 7,
        "reward": 0.75,
        "loss_mask": [1, 1, 1, 0, 0, 1, 1],
        "weight_versions": ["7", "8"],
        "rollout_log_probs": [-0.5, -0.25, -0.125, 0, 0, -1, -2],
        "rollout_routed_experts": None,
        "status": "completed",
        "session_id": "math-17",
        "metadata": TOOL_BESIDE,
    }


@QUICK
@given(samples())
def test_nothing_is_lost(sample: Sample) -> None:
    assert same(back(as_json(slime.row(sample))), sample)


def test_rows_of_a_session_are_one_rollout_and_other_sessions_are_others() -> None:
    ids = [
        slime.row(replace(TOOL_SAMPLE, branch=branch, session_id=session_id))["rollout_id"]
        for branch, session_id in [(0, "math-17"), (1, "math-17"), (0, "math-18")]
    ]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("session", "truncated", "status"),
    [
        ("finished", True, "truncated"),
        ("failed", True, "failed"),
        ("aborted", False, "aborted"),
        ("open", False, "pending"),
    ],
)
def test_the_status_says_how_the_session_ended(session: Any, truncated: bool, status: str) -> None:
    assert slime.row(replace(TOOL_SAMPLE, status=session, truncated=truncated))["status"] == status


def test_logprobs_with_a_gap_stand_beside() -> None:
    row = as_json(slime.row(UNTOLD_SAMPLE))
    assert row["rollout_log_probs"] is None
    assert row["metadata"]["logprobs"] == UNTOLD


def test_routed_experts_have_a_row_for_each_id_but_the_last() -> None:
    assert as_json(slime.row(MOE_SAMPLE))["rollout_routed_experts"] == EXPERTS.tolist()
