"""Dynamo's recorded and hand-written answers: what is read in them, and what of them an agent sees."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.answer import AnswerReader
from adapters.plan import Plan
from adapters.token_ids import TokenIds
from tests.adapters.cases import (
    Example,
    Recording,
    chunks_of,
    client_bytes,
    cut_points,
    examples,
    planned,
    recording,
    recordings,
    streamed,
)
from tests.adapters.cutting import assert_reads_the_same_however_it_is_cut, broken_off
from tests.adapters.dynamo import ALL, HELLO, MOCKER, ONCE, SCRIPTED, VLLM_WORKER, outcome_of
from tests.adapters.test_wire_examples import reading

CALLS = [
    (folder, one)
    for folder in (SCRIPTED, MOCKER)
    for one in recordings(folder)
    if one.status == 200 and isinstance(one.request, dict) and one.path.endswith("completions")
]


def recorded_plan(one: Recording) -> Plan:
    return planned(one.request, VLLM_WORKER, endpoint="chat" if "chat" in one.path else "completions")[0]


@pytest.mark.parametrize(("folder", "one"), CALLS, ids=lambda value: getattr(value, "name", value))
def test_a_recorded_answer_has_the_ids_that_it_counts(folder: str, one: Recording) -> None:
    outcome = outcome_of(recorded_plan(one), one.body, is_stream=one.streamed)
    told, usage = outcome.completion, outcome.completion.usage
    asked = set((one.request.get("nvext") or {}).get("extra_fields", ()))
    assert told.anomalies == ()
    assert outcome.finished == (one.name != "cut_client_disconnect")
    if "completion_token_ids" in asked and usage is not None and not told.usage_estimated:
        ids = told.choices[0].token_ids
        assert ids is not None
        assert len(ids) == usage.completion_tokens
        assert told.source == "nvext.completion_token_ids"
        prompt_known = "prompt_token_ids" in asked or "token_data" in one.request["nvext"]
        assert outcome.verdict.fidelity == ("exact" if prompt_known else "partial")
    if "logprobs" in one.request:
        assert outcome.verdict.logprobs_fidelity == "exact"
    assert outcome.verdict.fidelity == "none" or asked & {*ALL} or "logprobs" in one.request


@pytest.mark.parametrize("name", ["chat_emoji", "chat_tools", "chat_tools_parallel", "chat_think", "completion"])
def test_a_recorded_stream_folds_into_what_the_whole_answer_says(name: str) -> None:
    whole, stream = recording(SCRIPTED, name), recording(SCRIPTED, f"{name}_stream")
    of_whole = outcome_of(recorded_plan(whole), whole.body, is_stream=False).completion
    of_stream = outcome_of(recorded_plan(stream), stream.body, is_stream=True).completion
    assert of_stream.prompt_token_ids == of_whole.prompt_token_ids
    assert of_stream.usage == of_whole.usage
    assert of_stream.weight_version == of_whole.weight_version == "w-7"
    [one], [other] = of_stream.choices, of_whole.choices
    assert (one.token_ids, one.logprobs, one.text) == (other.token_ids, other.logprobs, other.text)
    assert (one.reasoning, one.finish_reason) == (other.reasoning, other.finish_reason)
    for call, same in zip(one.tool_calls or (), other.tool_calls or (), strict=True):
        assert (call.name, call.arguments) == (same.name, same.arguments)


STREAMS = [one for _, one in CALLS if one.streamed and len(one.body) < 20_000]


@pytest.mark.parametrize("one", STREAMS, ids=lambda one: one.name)
def test_a_recorded_stream_reads_the_same_however_it_is_cut(one: Recording) -> None:
    middle = len(one.body) // 2
    assert_reads_the_same_however_it_is_cut(recorded_plan(one), one.body, range(middle - 150, middle + 150))


@pytest.mark.parametrize("one", STREAMS[:6], ids=lambda one: one.name)
def test_a_recorded_stream_that_breaks_off_keeps_its_ids_and_is_exact_only_with_all_of_them(one: Recording) -> None:
    for outcome, whole in broken_off(recorded_plan(one), one.body, cut_points(one.body)[::3]):
        assert outcome.verdict.fidelity != "exact" or outcome.completion.choices == whole.completion.choices


def test_a_stream_cut_before_its_finish_chunk_has_no_prompt_ids() -> None:
    one = recording(SCRIPTED, "chat_stream_usage")
    _, outcome = streamed(recorded_plan(one), one.body[: one.body.index(b'"finish_reason":"stop"')], cut=True)
    assert outcome.completion.prompt_token_ids is None
    assert outcome.verdict.fidelity == "partial"


PLAIN = [("chat_stream_logprobs", "chat_stream_noflags"), ("chat_plain_logprobs", "chat_plain_noflags")]


@pytest.mark.parametrize(("flagged", "plain"), [*PLAIN, ("completion_logprobs", "completion_noflags")])
def test_an_agent_that_asks_for_nothing_sees_what_dynamo_gives_without_our_flags(flagged: str, plain: str) -> None:
    ours, direct = recording(SCRIPTED, flagged), recording(SCRIPTED, plain)
    fields = {"completion_token_ids", "prompt_token_ids", "engine_data"}
    plan, _ = planned(direct.request, VLLM_WORKER, endpoint="chat" if "chat" in direct.path else "completions")
    body = only(ours.body, fields)
    if direct.streamed:
        pieces, outcome = streamed(plan, body)
        assert [told(chunk) for chunk in chunks_of(client_bytes(pieces, outcome))] == [
            told(chunk) for chunk in chunks_of(direct.body)
        ]
    else:
        outcome = AnswerReader(plan).whole(body)
        assert told(json.loads(outcome.client)) == told(json.loads(direct.body))
    assert outcome.verdict.fidelity == "exact"


def told(chunk: Any) -> Any:
    return {key: value for key, value in chunk.items() if key not in ("id", "created")} if chunk != "[DONE]" else chunk


def only(body: bytes, fields: set[str]) -> bytes:
    """A recording that asked for more of nvext than a plan does, without the rest."""

    def kept(chunk: dict[str, Any]) -> dict[str, Any]:
        if "nvext" in chunk:
            chunk["nvext"] = {key: value for key, value in chunk["nvext"].items() if key in fields}
        return chunk

    if not body.startswith(b"data"):
        return json.dumps(kept(json.loads(body))).encode()
    return b"".join(
        b"data: " + (b"[DONE]" if chunk == "[DONE]" else json.dumps(kept(chunk)).encode()) + b"\n\n"
        for chunk in chunks_of(body)
    )


def test_an_agent_keeps_what_it_asked_for_in_nvext_itself() -> None:
    one = recording(SCRIPTED, "completion_stream")
    plan, _ = planned(
        {**ONCE, "stream": True, "nvext": {"extra_fields": ["worker_id", "timing", "stop_reason", "routed_experts"]}},
        VLLM_WORKER,
        endpoint="completions",
    )
    pieces, outcome = streamed(plan, one.body)
    *chunks, finish, done = chunks_of(client_bytes(pieces, outcome))
    assert all(set(chunk["nvext"]) == {"worker_id"} for chunk in chunks)
    assert set(finish["nvext"]) == {"worker_id", "timing"}
    # Dynamo writes this null of itself; the count was asked for by the gateway alone.
    assert all(chunk["usage"] is None for chunk in [*chunks, finish])
    assert done == "[DONE]"


def test_an_agent_that_asks_by_vllms_flag_gets_the_ids_at_vllms_places_once() -> None:
    one = recording(SCRIPTED, "chat_stream_usage")
    plan, _ = planned({**HELLO, "stream": True, "return_token_ids": True}, VLLM_WORKER)
    pieces, outcome = streamed(plan, only(one.body, set(ALL)))
    *chunks, _ = chunks_of(client_bytes(pieces, outcome))
    ids = [token for chunk in chunks for choice in chunk["choices"] for token in choice.get("token_ids", ())]
    assert ids == (outcome.completion.choices[0].token_ids or TokenIds()).tolist()
    prompts = [chunk["prompt_token_ids"] for chunk in chunks if "prompt_token_ids" in chunk]
    assert prompts == [(outcome.completion.prompt_token_ids or TokenIds()).tolist()]
    assert not any("nvext" in chunk for chunk in chunks)


# `exact` needs the engine's own count, and these have none.
WITHOUT_COUNT = {"dynamo/inference_generate.json", "dynamo/chat_completion_token_ids_stream_deltas.sse"}
EXAMPLES = [example for example in examples("dynamo") if example.status == 200]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.file)
def test_an_example_reads_as_expected(example: Example) -> None:
    flags = dict(example.flags)
    endpoint = "completions" if "token_ids" in flags else "chat"
    if "token_ids" in flags:
        flags["prompt"] = flags["token_ids"]
    plan, _ = planned({**flags, "stream": example.streamed}, VLLM_WORKER, endpoint=endpoint)
    outcome = outcome_of(plan, example.body, is_stream=example.streamed)
    expected = example.expected
    prompt = outcome.completion.prompt_token_ids
    assert (None if prompt is None else prompt.tolist()) == (
        expected["prompt_token_ids"] or expected.get("prompt_from_request")
    )
    for choice, wanted in zip(outcome.completion.choices, expected["choices"], strict=True):
        assert {key: reading(choice)[key] for key in wanted} == wanted
    if expected["status"] == "backend_error":
        assert outcome.completion.error is not None
        error = outcome.completion.error
        assert expected["error"] == {"message": error.message, "type": error.type, "code": error.code}
    else:
        fidelity = "partial" if example.file in WITHOUT_COUNT else expected["fidelity"]
        assert outcome.verdict.fidelity == fidelity, outcome.verdict.fidelity_reason
    if example.streamed:
        for cuts in [tuple(range(1, len(example.body))), *((cut,) for cut in cut_points(example.body))]:
            assert streamed(plan, example.body, *cuts)[1].completion == outcome.completion
