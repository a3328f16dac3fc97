"""The Parquet file in the hands of those who train and analyse, with the types that they find."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # Read when `datasets` is imported.

import datasets
import pandas as pd
import polars as pl
import pytest

from storage.formats import flat, traces
from storage.formats.writers import encoder_of
from tests.storage.formats.examples import TOOL_SAMPLE
from tests.storage.formats.test_traces import CALL

# In a process of its own: beside other libraries DuckDB 2.0 ends the tests with pages about references that it leaked.
_QUERY = "import sys, duckdb; print(duckdb.connect().execute(sys.argv[1], [sys.argv[2]]).fetchall())"
IDS = [1, 2, 3, 4, 10, 11, 12, 5, 6, 13, 14]


@pytest.fixture
def parquet(tmp_path: Path) -> str:
    encoder = encoder_of("parquet")
    path = tmp_path / "samples.parquet"
    path.write_bytes(encoder.start() + encoder.add([flat.row(TOOL_SAMPLE)]) + encoder.end())
    return str(path)


def test_datasets_loads_it(parquet: str, tmp_path: Path) -> None:
    loaded = datasets.load_dataset("parquet", data_files=parquet, split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded.features["token_ids"] == datasets.List(datasets.Value("int32"))
    assert loaded.features["logprobs"] == datasets.List(datasets.Value("float32"))
    assert loaded.features["mask"] == datasets.List(datasets.Value("int8"))
    assert loaded[0]["token_ids"] == IDS
    assert loaded[0]["spans"][1]["trace_id"] == "call-2"


def test_datasets_streams_it(parquet: str) -> None:
    (row,) = datasets.load_dataset("parquet", data_files=parquet, split="train", streaming=True)
    assert row["token_ids"] == IDS


def by_duckdb(query: str, path: str) -> Any:
    ran = subprocess.run([sys.executable, "-c", _QUERY, query, path], check=True, capture_output=True, text=True)
    return ast.literal_eval(ran.stdout)


def test_duckdb_queries_it(parquet: str) -> None:
    query = "select typeof(token_ids), typeof(logprobs), typeof(mask) from read_parquet(?)"
    assert by_duckdb(query, parquet) == [("INTEGER[]", "FLOAT[]", "TINYINT[]")]
    query = "select list_sum(mask), metadata->>'task', spans[2].trace_id, rewards[1].value from read_parquet(?)"
    assert by_duckdb(query, parquet) == [(5, "17", "call-2", 0.75)]


def test_polars_reads_it(parquet: str) -> None:
    frame = pl.read_parquet(parquet)
    assert frame.schema["token_ids"] == pl.List(pl.Int32)
    assert frame.schema["logprobs"] == pl.List(pl.Float32)
    assert frame.schema["mask"] == pl.List(pl.Int8)
    assert frame["token_ids"].to_list() == [IDS]


def test_pandas_reads_it(parquet: str) -> None:
    frame = pd.read_parquet(parquet)
    assert frame["token_ids"][0].dtype == "int32"
    assert frame["logprobs"][0].dtype == "float32"
    assert frame["mask"][0].dtype == "int8"
    assert frame["token_ids"][0].tolist() == IDS


@pytest.fixture
def trace_file(tmp_path: Path) -> str:
    encoder = encoder_of("parquet", "traces")
    path = tmp_path / "traces.parquet"
    path.write_bytes(encoder.start() + encoder.add([traces.row(CALL)]) + encoder.end())
    return str(path)


def test_duckdb_makes_a_row_for_each_choice_of_a_trace(trace_file: str) -> None:
    query = "select choice.token_ids, choice.logprobs from (select unnest(choices) as choice from read_parquet(?))"
    assert by_duckdb(query, trace_file) == [([10, 151645], [-0.1, None]), ([11], None)]
    query = "select decode(request.body), sampling.effective->>'temperature' from read_parquet(?)"
    assert by_duckdb(query, trace_file) == [('{"model": "qwen", "n": 2}', "0.7")]


def test_datasets_polars_and_pandas_read_traces(trace_file: str, tmp_path: Path) -> None:
    loaded = datasets.load_dataset("parquet", data_files=trace_file, split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded[0]["choices"][0]["token_ids"] == [10, 151645]
    assert pl.read_parquet(trace_file).explode("choices")["choices"].struct.field("token_ids").to_list() == [
        [10, 151645],
        [11],
    ]
    assert len(pd.read_parquet(trace_file).explode("choices")) == 2
