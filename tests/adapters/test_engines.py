"""The table of engines, and that no hand-written example of an engine's answers is read by nobody."""

from __future__ import annotations

import json

import pytest

from adapters.detect import Configured
from adapters.engines import ENGINES, UnknownEngine, UnknownVersion, UnknownWord, adapter_for, check
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


@pytest.mark.parametrize(
    "configured",
    [
        Configured(),
        Configured("vllm", features=frozenset({"no_parsers", "token_ids"})),
        Configured("sglang", features=frozenset({"patched_token_ids", "processed_logprobs"})),
        Configured("dynamo", features=frozenset({"completion_logprobs"})),
        Configured(features=frozenset({"engine_data", "sglext"})),
    ],
)
def test_a_feature_that_the_engine_may_have_can_be_configured(configured: Configured) -> None:
    check(configured)


def test_a_feature_that_nobody_would_heed_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownWord, match=r"'no_parser' of the engine vllm; known are .*no_parsers"):
        check(Configured("vllm", features=frozenset({"no_parser"})))
    with pytest.raises(UnknownWord, match="of any engine"):
        check(Configured(features=frozenset({"ids"})))
    with pytest.raises(UnknownEngine):
        check(Configured("vlm"))


@pytest.mark.parametrize("version", ["0.33.0", "v0.5.9", "0.1.dev1+g0a1b2c3", "1.2.0rc0"])
def test_a_release_and_a_build_of_one_can_be_configured(version: str) -> None:
    check(Configured(version=version))


@pytest.mark.parametrize("version", ["banana", "", "latest", "33"])
def test_a_version_that_no_table_has_a_place_for_is_an_error(version: str) -> None:
    with pytest.raises(UnknownVersion, match=r"is no release's number: write for instance 0\.33\.0"):
        check(Configured("vllm", version))


@pytest.mark.parametrize(("engine", "variant"), [("sglang", "agentcore"), ("dynamo", "trtllm"), (None, "llm360")])
def test_a_variant_that_the_engine_has_can_be_configured(engine: str | None, variant: str) -> None:
    check(Configured(engine, variant=variant))


def test_a_variant_that_nobody_would_heed_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownWord, match="variant 'agentcor' of the engine sglang; known are agentcore, llm360"):
        check(Configured("sglang", variant="agentcor"))
    with pytest.raises(UnknownWord, match="variant 'agentcore' of the engine vllm; known are none"):
        check(Configured("vllm", variant="agentcore"))
