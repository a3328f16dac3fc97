from typing import Any

import torch
from areal.api.io_struct import ModelResponse
from areal.experimental.openai.types import InteractionWithTokenLogpReward
from areal.utils.data import concat_padded_tensors

from tests.trainers.rows import PLAIN, rows

TENSORS = ("input_ids", "loss_mask", "logprobs", "versions", "attention_mask", "rewards")


def tensors(row: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.tensor([row[name]]) for name in TENSORS}


def test_a_row_is_what_areal_makes_of_two_calls_of_one_conversation() -> None:
    (row,) = rows("areal", PLAIN)
    first, second = (
        InteractionWithTokenLogpReward(model_response=response, chat_template_type="concat")
        for response in (
            ModelResponse(
                input_tokens=[1, 2, 3, 4],
                output_tokens=[10, 11, 12],
                output_logprobs=[-0.5, -0.25, -0.125],
                output_versions=[7, 7, 7],
            ),
            ModelResponse(
                input_tokens=[1, 2, 3, 4, 10, 11, 12, 5, 6],
                output_tokens=[13, 14],
                output_logprobs=[-1, -2],
                output_versions=[8, 8],
            ),
        )
    )
    second.parent = first
    second.reward = 0.75
    theirs = second.to_tensor_dict()
    ours = tensors(row)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in TENSORS)


def test_rows_are_a_batch() -> None:
    batch = concat_padded_tensors([tensors(row) for row in rows("areal", PLAIN, PLAIN)])
    assert batch["input_ids"].shape == (2, 11)
