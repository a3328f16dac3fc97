"""Every hand-written example of SGLang's answers, whole, byte by byte and cut, against the reading expected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapters.answer import AnswerReader, Outcome
from adapters.plan import Plan
from adapters.schema import Choice
from tests.adapters.cases import Example, bare_plan, cut_points, examples, streamed
from tests.adapters.cutting import assert_reads_the_same_however_it_is_cut, broken_off

# `exact` is earned by agreeing with the engine's own count. These examples have none, and index.json calls
# them exact for their ids alone.
WITHOUT_COUNT = {
    "sglang/chat_sglext_framed_event.sse",
    "sglang/completion_token_ids_stream.sse",
    "sglang_agentcore/chat_stream_eos_on_finish_chunk.sse",
    "sglang_agentcore/chat_multibyte_stream.sse",
}
# index.json gives these as they stand; fewer logprobs than ids are nobody's.
FEWER_LOGPROBS = {"sglang/chat_sglext_stream.sse", "sglang/chat_v059_no_ids_lossy_logprobs_stream.sse"}
BROKEN_OFF = {"sglang/generate_error_mid_stream.sse"}
FOLDERS = ("sglang", "sglang_agentcore", "sglang_llm360")
EXAMPLES = [example for example in examples(*FOLDERS) if example.status == 200]
STREAMS = [example for example in EXAMPLES if example.streamed]


def plan_of(example: Example) -> Plan:
    flags: dict[str, Any] = dict(example.flags)
    if example.endpoint == "/generate":
        flags = {"prompt": flags["input_ids"], "n": flags.get("sampling_params", {}).get("n", 1)}
    endpoint = "chat" if "chat" in example.endpoint else "completions"
    plan = bare_plan("sglang", flags, endpoint=endpoint, mode="streamed" if example.streamed else "whole")
    return replace(plan, path=example.endpoint)


def read(example: Example) -> Outcome:
    plan = plan_of(example)
    return streamed(plan, example.body)[1] if example.streamed else AnswerReader(plan).whole(example.body)


def reading(choice: Choice) -> dict[str, Any]:
    """A choice in the words of index.json."""
    return {
        "index": choice.index,
        "token_ids": None if choice.token_ids is None else choice.token_ids.tolist(),
        "logprobs": None if choice.logprobs is None else list(choice.logprobs),
        "finish_reason": choice.finish_reason,
        "text": choice.text,
        "reasoning": choice.reasoning,
        "tool_calls": choice.tool_calls,
        "weight_versions": [
            {"version": span.version, "start": span.start, "end": span.end} for span in choice.weight_versions or ()
        ],
    }


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.file)
def test_an_example_reads_as_expected(example: Example) -> None:
    outcome, expected = read(example), example.expected
    completion, fidelity = outcome.completion, outcome.verdict
    assert completion.anomalies == ()
    prompt = completion.prompt_token_ids
    told = expected["prompt_token_ids"] or expected.get("prompt_from_request")
    assert (None if prompt is None else prompt.tolist()) == told
    for choice, wanted in zip(completion.choices, expected["choices"], strict=True):
        seen = reading(choice)
        if example.file in FEWER_LOGPROBS:
            assert choice.logprobs is None
            assert fidelity.logprobs_reason
            seen["logprobs"] = wanted["logprobs"]
        seen["logprobs_aligned"] = choice.logprobs is not None
        seen["weight_version"] = completion.weight_version
        for key, value in wanted.items():
            assert seen[key] == value, key
    if example.file in BROKEN_OFF:
        assert not outcome.finished
        assert completion.error is not None
        error = expected["error"]
        assert (completion.error.message, completion.error.type) == (error["message"], error["type"])
        return
    assert outcome.finished
    assert fidelity.fidelity == ("partial" if example.file in WITHOUT_COUNT else expected["fidelity"])
    assert ("gave no count" in (fidelity.fidelity_reason or "")) == (example.file in WITHOUT_COUNT)


@pytest.mark.parametrize("example", STREAMS, ids=lambda example: example.file)
def test_a_streamed_example_reads_the_same_however_it_is_cut(example: Example) -> None:
    assert_reads_the_same_however_it_is_cut(plan_of(example), example.body, cut_points(example.body, small=500))


@pytest.mark.parametrize("example", STREAMS, ids=lambda example: example.file)
def test_a_stream_that_breaks_off_keeps_what_came_and_is_exact_only_by_the_engines_count(example: Example) -> None:
    for outcome, whole in broken_off(plan_of(example), example.body, cut_points(example.body, small=500)):
        assert outcome.completion.anomalies in ((), ("the stream ended inside an event",))
        if outcome.verdict.fidelity == "exact":
            # Only `/generate` counts in each event, and so for what came before the break.
            assert example.endpoint == "/generate" or outcome.completion.choices == whole.completion.choices
            came = sum(len(choice.token_ids or ()) for choice in outcome.completion.choices)
            assert outcome.completion.usage is not None
            assert outcome.completion.usage.completion_tokens == came
