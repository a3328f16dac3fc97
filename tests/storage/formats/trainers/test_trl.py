from typing import Any

from hypothesis import given

from storage.formats.trainers import trl
from storage.samples.sample import Sample
from tests.storage.formats.examples import QUICK, TOOL_BESIDE, TOOL_SAMPLE, as_json, same, samples
from tests.storage.formats.trainers.back import UNTOLD, UNTOLD_SAMPLE, from_split


def back(row: dict[str, Any]) -> Sample:
    beside = dict(row)
    prompt, completion, mask, logprobs = (
        beside.pop(name) for name in ("prompt_ids", "completion_ids", "env_mask", "logprobs")
    )
    if logprobs is None:
        beside["logprobs"] = beside.pop("partial_logprobs")
    return from_split(prompt, completion, mask, logprobs, beside)


def test_a_tool_sample_is_this_row() -> None:
    assert as_json(trl.row(TOOL_SAMPLE)) == {
        "prompt_ids": [1, 2, 3, 4],
        "completion_ids": [10, 11, 12, 5, 6, 13, 14],
        "logprobs": [-0.5, -0.25, -0.125, 0, 0, -1, -2],
        "env_mask": [1, 1, 1, 0, 0, 1, 1],
        **TOOL_BESIDE,
    }


@QUICK
@given(samples())
def test_nothing_is_lost(sample: Sample) -> None:
    assert same(back(as_json(trl.row(sample))), sample)


def test_logprobs_with_a_gap_are_a_column_of_another_name() -> None:
    row = as_json(trl.row(UNTOLD_SAMPLE))
    assert row["logprobs"] is None
    assert row["partial_logprobs"] == UNTOLD
