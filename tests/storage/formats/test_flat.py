from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from storage.formats import flat, schemas
from storage.formats.columns import record_batch
from storage.formats.writers import encode_row
from storage.samples.sample import Sample
from tests.storage.formats.examples import TOOL_SAMPLE, same, samples


def test_a_tool_sample_is_this_line_of_json() -> None:
    assert msgspec.json.decode(encode_row(flat.row(TOOL_SAMPLE))) == {
        "session_id": "math-17",
        "branch": 0,
        "run_id": "run-1",
        "group_id": "math",
        "attempt": 0,
        "purpose": "train",
        "status": "finished",
        "model": "qwen",
        "first_prompt_len": 4,
        "truncated": False,
        "weight": 0.5,
        "reward": 0.75,
        "token_ids": [1, 2, 3, 4, 10, 11, 12, 5, 6, 13, 14],
        "mask": [0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1],
        "logprobs": [0, 0, 0, 0, -0.5, -0.25, -0.125, 0, 0, -1, -2],
        "weight_versions": [{"version": "7", "start": 4, "end": 7}, {"version": "8", "start": 9, "end": 11}],
        "spans": [
            {
                "trace_id": "call-1",
                "index": 0,
                "start": 4,
                "end": 7,
                "trained": True,
                "finish_reason": "tool_calls",
                "temperature": 0.7,
                "logprobs_mode": "processed",
                "routed_experts": None,
            },
            {
                "trace_id": "call-2",
                "index": 0,
                "start": 9,
                "end": 11,
                "trained": True,
                "finish_reason": "stop",
                "temperature": 0.7,
                "logprobs_mode": "processed",
                "routed_experts": None,
            },
        ],
        "rewards": [
            {
                "reward_id": "judge-1",
                "name": "correct",
                "value": 0.75,
                "created_at": "2026-11-21T12:00:00Z",
                "weight": 1.0,
                "trace_id": None,
                "metadata": {"judge": "unit tests"},
            }
        ],
        "trace_ids": ["call-1", "call-2"],
        "findings": [
            {
                "code": "mixed_weight_versions",
                "fatal": False,
                "detail": "Sampled by weights 7 and 8.",
                "trace_ids": ["call-1", "call-2"],
            }
        ],
        "metadata": {"task": "17"},
    }


@given(samples())
def test_a_row_keeps_all_of_a_sample(sample: Sample) -> None:
    assert same(flat.sample_from_row(flat.row(sample)), sample)


@given(samples())
def test_json_keeps_all_of_a_sample(sample: Sample) -> None:
    assert same(flat.sample_from_row(msgspec.json.decode(encode_row(flat.row(sample)))), sample)


@settings(deadline=None)  # The first call imports what pyarrow converts with.
@given(samples())
def test_arrow_keeps_all_of_a_sample(sample: Sample) -> None:
    (row,) = record_batch([flat.row(sample)], schemas.FLAT).to_pylist()
    assert same(flat.sample_from_row(row), sample)


def test_a_logprob_that_nobody_told_is_null_in_json_and_in_arrow() -> None:
    untold = replace(TOOL_SAMPLE, logprobs=np.where(TOOL_SAMPLE.mask == 1, np.float32("nan"), np.float32(0)))
    nulls = [0, 0, 0, 0, None, None, None, 0, 0, None, None]
    assert msgspec.json.decode(encode_row(flat.row(untold)))["logprobs"] == nulls
    assert record_batch([flat.row(untold)], schemas.FLAT).column("logprobs").to_pylist() == [nulls]


def test_a_row_has_the_columns_of_its_schema_in_that_order() -> None:
    assert sorted(flat.row(TOOL_SAMPLE)) == sorted(schemas.FLAT.names)


def test_numbers_go_to_arrow_with_the_types_that_trainers_take() -> None:
    assert schemas.FLAT.field("token_ids").type == pa.list_(pa.int32())
    assert schemas.FLAT.field("logprobs").type == pa.list_(pa.float32())
    assert schemas.FLAT.field("mask").type == pa.list_(pa.int8())


def test_a_row_without_a_column_or_with_a_wrong_one_is_refused_by_name() -> None:
    row = flat.row(TOOL_SAMPLE)
    with pytest.raises(flat.BadRow, match="has no spans"):
        flat.sample_from_row({name: value for name, value in row.items() if name != "spans"})
    with pytest.raises(flat.BadRow, match="not a token id"):
        flat.sample_from_row(row | {"token_ids": [1.5] * 11})
    with pytest.raises(flat.BadRow, match="2 ids, 11 of mask"):
        flat.sample_from_row(row | {"token_ids": [1, 2]})
