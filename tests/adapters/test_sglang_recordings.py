"""What running SGLang servers answered: 0.5.23 with each kind of flag, and 0.5.9 with the agentcore patch."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from adapters.answer import AnswerReader, Outcome
from adapters.errors import read_error
from adapters.plan import Plan
from tests.adapters.cases import Recording, bare_plan, cut_points, recording, recordings, streamed
from tests.adapters.cutting import assert_reads_the_same_however_it_is_cut, broken_off

ENGINES = ("sglang-0.5.23", "sglang-0.5.23-sglext", "sglang-0.5.9-agentcore")
PATHS = {"/v1/chat/completions": "chat", "/v1/completions": "completions", "/generate": "completions"}
ANSWERED = [
    (engine, one)
    for engine in ENGINES
    for one in recordings(engine)
    if one.status == 200 and one.path in PATHS and one.name != "err_prompt_too_long_stream"
]
# The patch drops the key of an answer without tokens.
EMPTY = {"err_max_tokens_zero"}
IDS = [f"{engine}/{one.name}" for engine, one in ANSWERED]


def plan_of(one: Recording) -> Plan:
    body: dict[str, Any] = dict(one.request)
    if one.path == "/generate":
        body = {"prompt": body.get("input_ids") or body["text"], "n": body["sampling_params"].get("n", 1)}
    plan = bare_plan("sglang", body, endpoint=PATHS[one.path], mode="streamed" if one.streamed else "whole")
    return replace(plan, path=one.path)


def read(one: Recording) -> Outcome:
    plan = plan_of(one)
    return streamed(plan, one.body)[1] if one.streamed else AnswerReader(plan).whole(one.body)


def tells_ids(engine: str, one: Recording) -> bool:
    """Whether this request to this server gets ids, by what such servers were heard to say."""
    asked = one.request
    if one.path == "/generate":
        return True
    if engine == "sglang-0.5.9-agentcore":
        return one.path == "/v1/chat/completions"
    if asked.get("return_token_ids") or (
        asked.get("return_meta_info") and asked.get("logprobs") and "messages" in asked
    ):
        return True
    return bool(asked.get("return_output_ids_in_sglext")) and "messages" in asked


@pytest.mark.parametrize(("engine", "one"), ANSWERED, ids=IDS)
def test_an_answer_has_the_ids_that_it_was_asked_for_and_as_many_as_it_counts(engine: str, one: Recording) -> None:
    outcome = read(one)
    completion, verdict = outcome.completion, outcome.verdict
    assert outcome.finished
    assert completion.anomalies == ()
    assert completion.error is None
    sampled = [choice.token_ids for choice in completion.choices]
    if not tells_ids(engine, one) or one.name in EMPTY:
        assert set(sampled) == {None}
        assert verdict.fidelity == "none"
        return
    assert None not in sampled
    if completion.usage is not None:
        assert sum(len(ids or ()) for ids in sampled) == completion.usage.completion_tokens
    if verdict.fidelity != "exact":
        # Native calls by text, and streams that did not ask for the count.
        assert "prompt" in (verdict.fidelity_reason or "") or completion.usage_estimated


@pytest.mark.parametrize(("engine", "one"), ANSWERED, ids=IDS)
def test_logprobs_that_were_told_are_one_to_one_or_nobodys(engine: str, one: Recording) -> None:
    outcome = read(one)
    for choice in outcome.completion.choices:
        if choice.logprobs is not None:
            assert len(choice.logprobs) == len(choice.token_ids or ())
            assert all(logprob is not None and logprob <= 0 for logprob in choice.logprobs)
        elif one.request.get("logprobs"):
            assert outcome.verdict.logprobs_reason


def _some(points: list[int]) -> list[int]:
    return points[:: max(1, len(points) // 40)]


STREAMS = [(engine, one) for engine, one in ANSWERED if one.streamed]


@pytest.mark.parametrize(("engine", "one"), STREAMS, ids=[f"{engine}/{one.name}" for engine, one in STREAMS])
def test_a_stream_reads_the_same_however_it_is_cut(engine: str, one: Recording) -> None:
    assert_reads_the_same_however_it_is_cut(plan_of(one), one.body, _some(cut_points(one.body, small=500)))


@pytest.mark.parametrize(("engine", "one"), STREAMS, ids=[f"{engine}/{one.name}" for engine, one in STREAMS])
def test_a_stream_that_breaks_off_keeps_what_came(engine: str, one: Recording) -> None:
    ends = _some(cut_points(one.body, small=500))
    assert len([*broken_off(plan_of(one), one.body, ends)]) == len(ends)


PAIRS = [
    ("sglang-0.5.23-sglext", "chat_emoji_stream", "sglang-0.5.23-sglext", "chat_emoji"),
    ("sglang-0.5.23", "f_sglext_chat_stream", "sglang-0.5.23", "f_rti_lp_chat"),
    ("sglang-0.5.23", "f_sglext_tools_stream", "sglang-0.5.23", "f_rti_tools"),
    ("sglang-0.5.23-sglext", "chat_tools_stream", "sglang-0.5.23-sglext", "chat_tools"),
    ("sglang-0.5.23", "f_rti_lp_completion_stream", "sglang-0.5.23", "f_rti_lp_completion"),
    ("sglang-0.5.23", "sgl_generate_stream_lp", "sglang-0.5.23", "sgl_generate"),
    ("sglang-0.5.9-agentcore", "sgl_generate_stream", "sglang-0.5.9-agentcore", "sgl_generate"),
    ("sglang-0.5.9-agentcore", "chat_emoji_stream", "sglang-0.5.9-agentcore", "chat_emoji"),
    ("sglang-0.5.9-agentcore", "chat_stream_usage", "sglang-0.5.9-agentcore", "chat_plain"),
    ("sglang-0.5.9-agentcore", "chat_tools_stream", "sglang-0.5.9-agentcore", "chat_tools"),
    ("sglang-0.5.9-agentcore", "chat_tools_parallel_stream", "sglang-0.5.9-agentcore", "chat_tools_parallel"),
]


@pytest.mark.parametrize(("engine", "stream", "other", "whole"), PAIRS)
def test_a_greedy_stream_has_the_ids_of_the_whole_answer(engine: str, stream: str, other: str, whole: str) -> None:
    one, two = read(recording(engine, stream)).completion, read(recording(other, whole)).completion
    assert one.choices[0].token_ids is not None
    assert one.choices[0].token_ids == two.choices[0].token_ids
    assert one.choices[0].text == two.choices[0].text
    if two.prompt_token_ids is not None:
        assert one.prompt_token_ids in (two.prompt_token_ids, None)


def test_a_broken_tool_call_keeps_its_truth_in_the_ids_alone() -> None:
    stream = read(recording("sglang-0.5.23-sglext", "chat_tools_broken_stream"))
    [choice] = stream.completion.choices
    assert stream.verdict.fidelity == "exact"
    # The whole answer to the same chat says "" and `stop`, and was cut at nothing.
    assert read(recording("sglang-0.5.23", "chat_tools_broken")).completion.choices[0].finish_reason == "stop"
    assert choice.finish_reason == "tool_calls"


def test_an_error_in_a_stream_that_began_is_told_as_an_error() -> None:
    one = recording("sglang-0.5.9-agentcore", "err_prompt_too_long_stream")
    pieces, outcome = streamed(plan_of(one), one.body)
    assert [piece.error is not None for piece in pieces] == [True, False]
    assert not outcome.finished
    assert outcome.completion.error is not None
    assert outcome.completion.error.code == 400
    assert "longer than the model's context length" in outcome.completion.error.message


REFUSED = [(engine, one) for engine in ENGINES for one in recordings(engine) if one.status >= 400]


@pytest.mark.parametrize(("engine", "one"), REFUSED, ids=[f"{engine}/{one.name}" for engine, one in REFUSED])
def test_a_refusal_is_read_with_its_words(engine: str, one: Recording) -> None:
    error = read_error(one.status, one.body)
    said = json.loads(one.body)
    words = said.get("message") or said.get("detail") or said["error"]["message"]
    assert error.message == words
    assert error.code == one.status


OTHERS = [
    (engine, one)
    for engine in ENGINES
    for one in recordings(engine)
    if one.path in ("/v1/messages", "/v1/responses", "/health_generate", "/v1/models", "/tokenize")
]


@pytest.mark.parametrize(("engine", "one"), OTHERS, ids=[f"{engine}/{one.name}" for engine, one in OTHERS])
def test_what_is_no_completion_is_never_taken_for_one(engine: str, one: Recording) -> None:
    plan = bare_plan("sglang", {}, mode="whole")
    assert AnswerReader(plan).whole(one.body).verdict.fidelity == "none"
