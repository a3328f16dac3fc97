from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from storage.formats.flat import sample_from_row
from storage.formats.trainers import nemo_rl
from storage.formats.trainers.parts import CannotShape
from storage.samples.sample import Sample
from tests.storage.formats.examples import QUICK, TOOL_BESIDE, TOOL_SAMPLE, as_json, same, samples
from tests.storage.formats.trainers.back import EXPERTS, MOE_SAMPLE, UNTOLD_SAMPLE


def back(row: dict[str, Any]) -> Sample:
    arrays: dict[str, list[Any]] = {"token_ids": [], "mask": [], "logprobs": []}
    for message in row["message_log"]:
        ids = message["token_ids"]
        logprobs = message.get("generation_logprobs")
        arrays["token_ids"] += ids
        arrays["mask"] += [int(logprobs is not None)] * len(ids)
        arrays["logprobs"] += [0.0] * len(ids) if logprobs is None else logprobs
    return sample_from_row(row["extra_env_info"] | arrays)


def test_a_tool_sample_is_this_row() -> None:
    assert as_json(nemo_rl.row(TOOL_SAMPLE)) == {
        "message_log": [
            {"role": "user", "content": "", "token_ids": [1, 2, 3, 4]},
            {
                "role": "assistant",
                "content": "",
                "token_ids": [10, 11, 12],
                "generation_logprobs": [-0.5, -0.25, -0.125],
            },
            {"role": "environment", "content": "", "token_ids": [5, 6]},
            {"role": "assistant", "content": "", "token_ids": [13, 14], "generation_logprobs": [-1, -2]},
        ],
        "length": 11,
        "loss_multiplier": 0.5,
        "total_reward": 0.75,
        "idx": None,
        "extra_env_info": TOOL_BESIDE,
    }


@QUICK
@given(samples(all_told=True))
def test_nothing_is_lost(sample: Sample) -> None:
    assert same(back(as_json(nemo_rl.row(sample))), sample)


def test_what_another_row_trains_has_no_logprobs() -> None:
    first, second = TOOL_SAMPLE.spans
    branch = replace(
        TOOL_SAMPLE,
        spans=(replace(first, trained=False), second),
        mask=TOOL_SAMPLE.mask * (np.arange(11) > 8),
        logprobs=TOOL_SAMPLE.logprobs * (np.arange(11) > 8),
    )
    said = [message for message in nemo_rl.row(branch)["message_log"] if message["role"] == "assistant"]
    assert ["generation_logprobs" in message for message in said] == [False, True]


def test_routed_experts_of_a_message_are_as_long_as_its_ids() -> None:
    messages = nemo_rl.row(MOE_SAMPLE)["message_log"]
    assert [len(message["routed_experts"]) for message in messages] == [4, 3, 2, 2]
    together = np.concatenate([message["routed_experts"] for message in messages])
    assert together[:-1].tolist() == EXPERTS.tolist()
    assert together[-1].tolist() == [[-1, -1], [-1, -1]]


def test_a_trained_token_without_its_logprob_is_refused() -> None:
    with pytest.raises(CannotShape, match="NeMo-RL needs a logprob"):
        nemo_rl.row(UNTOLD_SAMPLE)
