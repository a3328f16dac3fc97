from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from storage.formats.flat import sample_from_row
from storage.formats.trainers import tinker
from storage.formats.trainers.parts import CannotShape
from storage.samples.sample import Sample
from tests.storage.formats.examples import QUICK, TOOL_BESIDE, TOOL_SAMPLE, as_json, same, samples
from tests.storage.formats.trainers.back import UNTOLD_SAMPLE


def back(row: dict[str, Any]) -> Sample:
    (chunk,) = row["model_input"]["chunks"]
    shifted = {name: tensor["data"] for name, tensor in row["loss_fn_inputs"].items()}
    return sample_from_row(
        row["rollout"]
        | {
            "token_ids": [chunk["tokens"][0], *shifted["target_tokens"]],
            "mask": [0, *shifted["mask"]],
            "logprobs": [0, *shifted["logprobs"]],
        }
    )


def test_a_tool_sample_is_this_row() -> None:
    assert as_json(tinker.row(TOOL_SAMPLE)) == {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3, 4, 10, 11, 12, 5, 6, 13]}]},
        "loss_fn_inputs": {
            "target_tokens": {"data": [2, 3, 4, 10, 11, 12, 5, 6, 13, 14], "dtype": "int64", "shape": [10]},
            "logprobs": {"data": [0, 0, 0, -0.5, -0.25, -0.125, 0, 0, -1, -2], "dtype": "float32", "shape": [10]},
            "mask": {"data": [0, 0, 0, 1, 1, 1, 0, 0, 1, 1], "dtype": "float32", "shape": [10]},
        },
        "rollout": TOOL_BESIDE,
    }


@QUICK
@given(samples(all_told=True, prompted=True))
def test_nothing_is_lost(sample: Sample) -> None:
    assert same(back(as_json(tinker.row(sample))), sample)


def test_what_no_input_foretells_is_refused() -> None:
    with pytest.raises(CannotShape, match="the first has none"):
        tinker.row(replace(TOOL_SAMPLE, mask=np.ones(11, np.int8)))


def test_a_trained_token_without_its_logprob_is_refused() -> None:
    with pytest.raises(CannotShape, match="Tinker needs a logprob"):
        tinker.row(UNTOLD_SAMPLE)
