"""The Parquet file in the hands of those who train and analyse, with the types that they find."""

import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # Read when `datasets` is imported.

import datasets
import duckdb
import pandas as pd
import polars as pl
import pytest

from storage.formats import flat
from storage.formats.writers import encoder_of
from tests.storage.formats.examples import TOOL_SAMPLE

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


def test_duckdb_queries_it(parquet: str) -> None:
    with duckdb.connect() as db:
        types = db.execute("select typeof(token_ids), typeof(logprobs), typeof(mask) from read_parquet(?)", [parquet])
        assert types.fetchall() == [("INTEGER[]", "FLOAT[]", "TINYINT[]")]
        query = "select list_sum(mask), metadata->>'task', spans[2].trace_id, rewards[1].value from read_parquet(?)"
        assert db.execute(query, [parquet]).fetchall() == [(5, "17", "call-2", 0.75)]


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
