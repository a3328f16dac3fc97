from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from storage.formats import flat, schemas
from storage.formats.columns import record_batch
from storage.samples.sample import Sample
from tests.storage.formats.examples import QUICK, TOOL_BESIDE, TOOL_SAMPLE, as_json, same, samples


def test_a_tool_sample_is_this_line_of_json() -> None:
    assert as_json(flat.row(TOOL_SAMPLE)) == TOOL_BESIDE | {
        "token_ids": [1, 2, 3, 4, 10, 11, 12, 5, 6, 13, 14],
        "mask": [0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1],
        "logprobs": [0, 0, 0, 0, -0.5, -0.25, -0.125, 0, 0, -1, -2],
    }


@QUICK
@given(samples())
def test_a_row_keeps_all_of_a_sample(sample: Sample) -> None:
    assert same(flat.sample_from_row(flat.row(sample)), sample)


@QUICK
@given(samples())
def test_json_keeps_all_of_a_sample(sample: Sample) -> None:
    assert same(flat.sample_from_row(as_json(flat.row(sample))), sample)


@QUICK
@given(samples())
def test_arrow_keeps_all_of_a_sample(sample: Sample) -> None:
    (row,) = record_batch([flat.row(sample)], schemas.FLAT).to_pylist()
    assert same(flat.sample_from_row(row), sample)


def test_a_logprob_that_nobody_told_is_null_in_json_and_in_arrow() -> None:
    untold = replace(TOOL_SAMPLE, logprobs=np.where(TOOL_SAMPLE.mask == 1, np.float32("nan"), np.float32(0)))
    nulls = [0, 0, 0, 0, None, None, None, 0, 0, None, None]
    assert as_json(flat.row(untold))["logprobs"] == nulls
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
