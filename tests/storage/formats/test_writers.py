"""Each format: read back with its own reader, whatever the rows came in; and how much an encoder holds."""

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adapters.token_ids import TokenIds
from storage.formats import flat, schemas, traces
from storage.formats.columns import record_batch
from storage.formats.parquet import Parquet
from storage.formats.row import Row
from storage.formats.writers import Encoder, FileFormat, encoder_of
from tests.storage.formats.examples import TOOL_SAMPLE, same
from tests.storage.formats.test_traces import CALL

ROWS = [flat.row(replace(TOOL_SAMPLE, branch=branch)) for branch in range(5)]


def file_of(encoder: Encoder, pages: Sequence[Sequence[Row]]) -> bytes:
    return b"".join([encoder.start(), *(encoder.add(page) for page in pages), encoder.end()])


def table(file_format: FileFormat, data: bytes) -> pa.Table:
    source = io.BytesIO(data)
    return pq.read_table(source) if file_format == "parquet" else pa.ipc.open_stream(source).read_all()


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
@pytest.mark.parametrize("pages", [[ROWS], [ROWS[:2], [], ROWS[2:]], [[row] for row in ROWS]])
def test_a_file_has_the_rows_however_they_came(file_format: FileFormat, pages: list[list[Row]]) -> None:
    read = table(file_format, file_of(encoder_of(file_format), pages))
    assert read.schema.equals(schemas.FLAT)
    assert [row["branch"] for row in read.to_pylist()] == [0, 1, 2, 3, 4]
    assert all(
        same(flat.sample_from_row(row), replace(TOOL_SAMPLE, branch=branch))
        for branch, row in enumerate(read.to_pylist())
    )


def test_json_lines_have_a_line_for_each_row() -> None:
    lines = file_of(encoder_of("jsonl"), [ROWS[:2], ROWS[2:]]).splitlines()
    assert [json.loads(line)["branch"] for line in lines] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("file_format", get_args(FileFormat))
def test_a_file_without_rows_is_a_file(file_format: FileFormat) -> None:
    data = file_of(encoder_of(file_format), [])
    assert data == b"" if file_format == "jsonl" else len(table(file_format, data)) == 0


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
def test_traces_have_a_file_of_their_own_columns(file_format: FileFormat) -> None:
    read = table(file_format, file_of(encoder_of(file_format, "traces"), [[traces.row(CALL)]]))
    assert read.schema.equals(schemas.TRACES)
    assert read.column("prompt_token_ids").to_pylist() == [[1, 2, 3]]


def test_a_row_group_is_given_away_as_soon_as_the_next_row_would_be_too_much() -> None:
    long = flat.row(
        replace(
            TOOL_SAMPLE,
            token_ids=TokenIds(range(10_000)),
            mask=np.ones(10_000, np.int8),
            logprobs=np.full(10_000, -1, np.float32),
        )
    )
    parquet = Parquet(schemas.FLAT, group_bytes=300_000)  # Three rows of some 90,000.
    parquet.start()
    given = [len(parquet.add([long])) for _ in range(7)]
    assert [size > 0 for size in given] == [False, False, False, True, False, False, True]


def test_row_groups_grow_where_they_come_to_be_many() -> None:
    row = flat.row(TOOL_SAMPLE)
    size = record_batch([row], schemas.FLAT).nbytes
    parquet = Parquet(schemas.FLAT, group_bytes=size)
    file = b"".join([parquet.start(), *(parquet.add([row]) for _ in range(516)), parquet.end()])
    groups = pq.ParquetFile(io.BytesIO(file)).metadata
    rows = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
    assert rows == [1] * 512 + [2, 2]


def test_a_parquet_file_keeps_ids_plain_and_floats_split() -> None:
    metadata = pq.ParquetFile(io.BytesIO(file_of(encoder_of("parquet"), [ROWS]))).metadata.row_group(0)
    columns = [metadata.column(number) for number in range(metadata.num_columns)]
    encodings = {column.path_in_schema: column.encodings for column in columns}
    assert "BYTE_STREAM_SPLIT" in encodings["logprobs.list.element"]
    assert "PLAIN" in encodings["token_ids.list.element"]
    assert not any("DICTIONARY" in encoding for encoding in encodings["token_ids.list.element"])
    assert {column.compression for column in columns} == {"ZSTD"}


def test_without_pyarrow_lines_are_written_and_the_error_says_what_to_install() -> None:
    program = """
import sys
sys.modules["pyarrow"] = None  # As where it is not installed.
from storage.formats.writers import CannotWrite, encoder_of
encoder_of("jsonl")
try:
    encoder_of("parquet")
except CannotWrite as told:
    print(told)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told == 'parquet needs pyarrow: pip install "rollout-gateway[export]"\n'
