from dataclasses import replace

import pytest
from hypothesis import given

from adapters.schema import WeightSpan
from storage.formats.flat import sample_from_row
from storage.formats.trainers import areal
from storage.formats.trainers.parts import CannotShape
from storage.samples.sample import Sample
from tests.storage.formats.examples import QUICK, TOOL_BESIDE, TOOL_SAMPLE, as_json, same, samples
from tests.storage.formats.trainers.back import UNTOLD_SAMPLE


def test_a_tool_sample_is_this_row() -> None:
    assert as_json(areal.row(TOOL_SAMPLE)) == {
        "input_ids": [1, 2, 3, 4, 10, 11, 12, 5, 6, 13, 14],
        "loss_mask": [0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1],
        "logprobs": [0, 0, 0, 0, -0.5, -0.25, -0.125, 0, 0, -1, -2],
        "versions": [-1, -1, -1, -1, 7, 7, 7, -1, -1, 8, 8],
        "attention_mask": [True] * 11,
        "rewards": 0.75,
        "rollout": TOOL_BESIDE,
    }


@QUICK
@given(samples(all_told=True))
def test_nothing_is_lost(sample: Sample) -> None:
    row = as_json(areal.row(sample))
    arrays = {"token_ids": row["input_ids"], "mask": row["loss_mask"], "logprobs": row["logprobs"]}
    assert same(sample_from_row(row["rollout"] | arrays), sample)


@pytest.mark.parametrize(
    "spans",
    [
        (),
        (WeightSpan("7", 4, 7),),
        (WeightSpan("7", 4, 7), WeightSpan("8", 9, 10)),
        (WeightSpan("step-7", 4, 7), WeightSpan("8", 9, 11)),
        (WeightSpan("-2", 4, 7), WeightSpan("8", 9, 11)),
        (WeightSpan("99999999999", 4, 7), WeightSpan("8", 9, 11)),
    ],
    ids=["none", "one span", "half a span", "no number", "negative", "too large"],
)
def test_versions_are_whole_numbers_of_all_sampled_tokens_or_not_told(spans: tuple[WeightSpan, ...]) -> None:
    assert areal.row(replace(TOOL_SAMPLE, weight_versions=spans))["versions"] is None


def test_a_trained_token_without_its_logprob_is_refused() -> None:
    with pytest.raises(CannotShape, match="AReaL needs a logprob"):
        areal.row(UNTOLD_SAMPLE)
