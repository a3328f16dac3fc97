"""Every hand-written example of vLLM's answers, read whole, byte by byte and cut, against the reading expected."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.answer import AnswerReader, Outcome
from adapters.errors import read_error
from adapters.plan import Plan
from adapters.schema import Choice
from tests.adapters.cases import Example, bare_plan, cut_points, examples, streamed
from tests.adapters.cutting import assert_reads_the_same_however_it_is_cut, broken_off

# `exact` is earned by agreeing with the engine's own count. These examples have none, and index.json calls
# them exact for their ids alone.
WITHOUT_COUNT = {
    "vllm/chat_tool_stream_parser_yields_none.sse",
    "vllm/chat_reasoning_stream.sse",
    "vllm/completion_stream.sse",
    "vllm/generate_tokens_v0160.json",
    "vllm/chat_keepalive_comments_stream.sse",
    "generic/crlf_line_ends.sse",
    "generic/no_space_comments_id_retry.sse",
    "generic/last_event_without_blank_line.sse",
}
SERVERS_WITHOUT_IDS = {"generic/local_server_usage_on_final_chunk.sse"}
EXAMPLES = [example for example in examples("vllm", "generic") if example.status == 200]


def plan_of(example: Example) -> Plan:
    engine = "openai" if example.file in SERVERS_WITHOUT_IDS else "vllm"
    endpoint = "chat" if "chat" in example.endpoint or "generate" in example.endpoint else "completions"
    flags = dict(example.flags)
    if "token_ids" in flags:
        flags |= {"prompt": flags["token_ids"]}
    return bare_plan(engine, flags, endpoint=endpoint, mode="streamed" if example.streamed else "whole")


def read(example: Example) -> Outcome:
    plan = plan_of(example)
    return streamed(plan, example.body)[1] if example.streamed else AnswerReader(plan).whole(example.body)


def reading(choice: Choice) -> dict[str, Any]:
    """A choice in the words of index.json."""
    told: dict[str, Any] = {
        "index": choice.index,
        "token_ids": None if choice.token_ids is None else choice.token_ids.tolist(),
        "logprobs": None if choice.logprobs is None else list(choice.logprobs),
        "finish_reason": choice.finish_reason,
        "text": choice.text,
        "tool_calls": None
        if choice.tool_calls is None
        else [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in choice.tool_calls],
        "reasoning": choice.reasoning,
        "stop_reason": choice.stop_reason,
        "prompt_token_ids": None if choice.prompt_token_ids is None else choice.prompt_token_ids.tolist(),
    }
    if choice.weight_versions is not None:
        told["weight_versions"] = [
            {"version": span.version, "start": span.start, "end": span.end} for span in choice.weight_versions
        ]
    return told


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.file)
def test_an_example_reads_as_expected(example: Example) -> None:
    outcome, expected = read(example), example.expected
    assert outcome.finished
    assert outcome.completion.error is None
    assert outcome.completion.anomalies == ()
    prompt = outcome.completion.prompt_token_ids
    assert (None if prompt is None else prompt.tolist()) == (
        expected["prompt_token_ids"] or expected.get("prompt_from_request")
    )
    for choice, wanted in zip(outcome.completion.choices, expected["choices"], strict=True):
        told = reading(choice)
        for key, value in wanted.items():
            if key != "routed_experts_b64":
                assert told[key] == value, key
    fidelity = "partial" if example.file in WITHOUT_COUNT else expected["fidelity"]
    assert outcome.verdict.fidelity == fidelity, outcome.verdict.fidelity_reason
    if example.file in WITHOUT_COUNT:
        assert "gave no count" in (outcome.verdict.fidelity_reason or "")
    if "usage" in expected:
        usage = outcome.completion.usage
        assert usage is not None
        assert usage.prompt_tokens == expected["usage"]["prompt_tokens"]
        assert usage.completion_tokens == expected["usage"]["completion_tokens"]


@pytest.mark.parametrize(
    "example", [example for example in EXAMPLES if example.streamed], ids=lambda example: example.file
)
def test_a_streamed_example_reads_the_same_however_it_is_cut(example: Example) -> None:
    assert_reads_the_same_however_it_is_cut(plan_of(example), example.body, cut_points(example.body, small=1000))


@pytest.mark.parametrize(
    "example", [example for example in EXAMPLES if example.streamed], ids=lambda example: example.file
)
def test_a_stream_that_breaks_off_keeps_what_came_and_is_exact_only_by_the_engines_count(example: Example) -> None:
    for outcome, whole in broken_off(plan_of(example), example.body, cut_points(example.body, small=1000)):
        assert outcome.completion.anomalies in ((), ("the stream ended inside an event",))
        if outcome.verdict.fidelity == "exact":
            # The count comes last: then nothing but the mark of the end can be missing.
            assert outcome.completion.choices == whole.completion.choices


def test_routed_experts_keep_their_bytes_where_the_header_cannot_be_read() -> None:
    example = next(one for one in EXAMPLES if one.file == "vllm/chat_weight_versions_routed_experts.json")
    experts = read(example).completion.choices[0].routed_experts
    assert experts is not None
    assert (experts.data, experts.shape, experts.dtype) == (b"\x93NUMPY\x01\x00v\x00", None, None)


@pytest.mark.parametrize(
    "example",
    [
        example
        for example in examples(
            "vllm", "sglang", "sglang_llm360", "sglang_agentcore", "dynamo", "trtllm", "llamacpp", "lmdeploy", "mlx_lm"
        )
        if example.status != 200
    ],
    ids=lambda example: example.file,
)
def test_a_refusal_reads_as_expected(example: Example) -> None:
    error = read_error(example.status, example.body)
    expected = example.expected["error"]
    assert (error.message, error.type, error.code) == (expected["message"], expected["type"], expected["code"])
