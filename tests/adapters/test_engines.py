"""The table of engines, and that no hand-written example of an engine's answers is read by nobody."""

from __future__ import annotations

import json

import pytest

from adapters.engines import ENGINES, UnknownEngine, adapter_for
from tests.adapters.cases import TESTS

# Whose test reads each folder of the examples.
READERS = {
    "dynamo": "dynamo",
    "generic": "vllm",
    "llamacpp": "llamacpp",
    "lmdeploy": "lmdeploy",
    "mlx_lm": "mlx_lm",
    "sglang": "sglang",
    "sglang_agentcore": "sglang",
    "sglang_llm360": "sglang",
    "trtllm": "trtllm",
    "vllm": "vllm",
}


def test_every_example_has_an_engine_that_reads_it() -> None:
    root = TESTS / "wire-examples"
    files = {str(file.relative_to(root)) for file in root.glob("*/*")}
    cases = {case["file"] for case in json.loads((root / "index.json").read_text())["cases"]}
    assert files == cases
    assert len(files) == 73
    assert {file.split("/")[0] for file in files} == READERS.keys()
    assert set(READERS.values()) <= set(ENGINES)


def test_an_engine_is_found_by_its_name() -> None:
    for engine in ENGINES:
        assert adapter_for(engine).engine == engine


def test_the_engine_that_takes_whatever_is_left_is_the_last() -> None:
    assert ENGINES[-1] == "openai"


def test_a_name_that_nobody_has_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownEngine, match=r"'tgi'; known are .*vllm"):
        adapter_for("tgi")
