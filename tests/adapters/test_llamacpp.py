"""llama.cpp: what is sent to it, and what is read in its answers, the native ones among them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.answer import AnswerReader
from adapters.detect import Configured, Reply
from adapters.engines import adapter_for, identify
from adapters.schema import Capture
from adapters.token_ids import TokenIds
from tests.adapters.cases import Example, changes, examples, planned
from tests.adapters.expecting import assert_reads_as_expected, plan_of, read

SERVER = adapter_for("llamacpp").server()
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
VERBOSE = {"return_tokens": True, "verbose": True}
EXAMPLES = [example for example in examples("llamacpp") if example.status == 200]

# Of a word that stopped it the server keeps the ids and drops the logprobs: fewer logprobs than ids are none.
UNALIGNED = "llamacpp/completion_stop_word_probs_shorter.json"
NO_WORDS_OF_OURS = frozenset({"logprobs_aligned", "complete", "source"})


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.file)
def test_an_example_reads_as_expected(example: Example) -> None:
    ignored = NO_WORDS_OF_OURS | ({"logprobs"} if example.file == UNALIGNED else set())
    assert_reads_as_expected(example, plan_of(example, SERVER), ignored=ignored)


def test_a_stop_words_missing_logprobs_make_null_with_a_reason() -> None:
    example = next(one for one in EXAMPLES if one.file == UNALIGNED)
    outcome = read(example, plan_of(example, SERVER))
    assert outcome.completion.choices[0].logprobs is None
    assert "2 ids and 1" in (outcome.verdict.logprobs_reason or "")


@pytest.mark.parametrize(
    ("body", "capture", "mode", "flags"),
    [
        ({}, "exact", "whole", {**VERBOSE, "logprobs": True}),
        ({"n": 2}, "exact", "whole", {"logprobs": True}),
        ({"stream": True}, "exact", "buffered", {**VERBOSE, "logprobs": True, "stream": None}),
        ({"stream": True}, "ids", "buffered", {**VERBOSE, "logprobs": True, "stream": None}),
        ({"stream": True}, "stream", "streamed", {"logprobs": True, "stream_options": {"include_usage": True}}),
        ({"logprobs": True, "top_logprobs": 3}, "exact", "whole", VERBOSE),
        ({"return_token_ids": True}, "exact", "whole", {**VERBOSE, "logprobs": True, "return_token_ids": None}),
    ],
)
def test_a_whole_answer_is_asked_for_where_a_stream_would_lose_ids(
    body: dict[str, Any], capture: Capture, mode: str, flags: dict[str, Any]
) -> None:
    asked = {**HELLO, **body}
    plan, upstream = planned(asked, SERVER, capture=capture)
    assert plan.mode == mode
    assert changes(asked, upstream) == flags


def test_an_agent_sees_none_of_what_was_asked_for_the_record() -> None:
    entries = [{"id": 5, "token": "a", "logprob": -0.5, "top_logprobs": []}]
    plain = {
        "choices": [{"finish_reason": "stop", "index": 0, "message": {"role": "assistant", "content": "a"}}],
        "model": "m",
        "usage": {"completion_tokens": 1, "prompt_tokens": 2, "total_tokens": 3},
    }
    choice = {**plain["choices"][0], "logprobs": {"content": entries}}  # type: ignore[index]
    body = json.dumps({**plain, "choices": [choice], "__verbose": {"tokens": [5]}}).encode()
    outcome = AnswerReader(planned(HELLO, SERVER)[0]).whole(body)
    assert json.loads(outcome.client) == plain
    assert outcome.completion.choices[0].token_ids == TokenIds([5])
    assert outcome.completion.choices[0].logprobs == (-0.5,)
    assert outcome.completion.source == "__verbose.tokens"
    assert (outcome.verdict.fidelity, outcome.verdict.fidelity_reason) == ("partial", "the engine gave no prompt ids")


def test_it_is_known_by_its_header_or_its_models() -> None:
    header = {"/health": Reply(200, {"server": "llama.cpp"}, b'{"status":"ok"}')}
    models = {"/v1/models": Reply(200, body=b'{"data":[{"id":"m","owned_by":"llamacpp"}]}')}
    assert identify(header, Configured()).engine == "llamacpp"
    assert identify(models, Configured()).engine == "llamacpp"
