"""What a running vLLM 0.32.0 said, read by the plan that would have asked for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.answer import AnswerReader, Outcome, Piece
from adapters.engines import adapter_for
from adapters.errors import read_error
from adapters.plan import Plan
from tests.adapters.cases import (
    Recording,
    bare_plan,
    canonical,
    chunks_of,
    client_bytes,
    cut_points,
    planned,
    recording,
    recordings,
    streamed,
)
from tests.adapters.cutting import assert_reads_the_same_however_it_is_cut, broken_off

ENGINE = "vllm-0.32.0"
VLLM = adapter_for("vllm")
SERVER = VLLM.server("0.32.0")
PATHS = {"/v1/chat/completions": "chat", "/v1/completions": "completions"}
CALLS = [one for one in recordings(ENGINE) if one.path in PATHS and one.status == 200]
STREAMS = [one for one in CALLS if one.streamed]
REFUSALS = [one for one in recordings(ENGINE) if one.status in (400, 404) and one.path in PATHS]
CUT = {"cut_client_disconnect"}
UNASKED = {"chat_plain_noflags", "chat_stream_noflags", "completion_noflags", "chat_logprobs_noflags"}
TWINS = [
    ("chat_emoji", "chat_emoji_stream"),
    ("chat_maxtok1", "chat_maxtok1_stream"),
    ("chat_plain_logprobs", "chat_stream_logprobs"),
    ("chat_think", "chat_think_stream"),
    ("chat_tools", "chat_tools_stream"),
    ("chat_tools_parallel", "chat_tools_parallel_stream"),
    ("completion", "completion_stream"),
]


def body_of(one: Recording) -> dict[str, Any]:
    return dict(one.request)


def as_agent(one: Recording, *asked: str) -> Plan:
    """The plan of an agent that asked for nothing of its own but what is named here."""
    ours = {"return_token_ids", "logprobs", "top_logprobs", "stream_options"} - set(asked)
    body = {key: value for key, value in body_of(one).items() if key not in ours}
    return VLLM.plan(canonical(body, PATHS[one.path]), SERVER, "exact")


def as_asked(one: Recording) -> Plan:
    return VLLM.plan(canonical(body_of(one), PATHS[one.path]), SERVER, "exact")


def read(one: Recording, plan: Plan) -> tuple[list[Piece], Outcome]:
    return streamed(plan, one.body) if one.streamed else ([], AnswerReader(plan).whole(one.body))


@pytest.mark.parametrize("one", CALLS, ids=lambda one: one.name)
def test_ids_are_as_many_as_the_engine_counted(one: Recording) -> None:
    _, outcome = read(one, as_asked(one))
    completion = outcome.completion
    assert completion.anomalies == ()
    assert outcome.finished is (one.name not in CUT)
    if one.name in UNASKED:
        assert outcome.verdict.fidelity == "none"
    elif one.name in CUT or completion.usage is None or completion.usage_estimated:
        assert outcome.verdict.fidelity == "partial"
        assert "no count" in (outcome.verdict.fidelity_reason or "")
    elif one.name == "vllm_logprobs_tokens_as_ids":
        # The agent asked for ids in the logprobs' texts: they are read there, and nobody asked for the prompt's.
        assert completion.source == "choices[].logprobs.content[].token"
        assert outcome.verdict.fidelity_reason == "the engine gave no prompt ids"
    else:
        assert outcome.verdict.fidelity == "exact", outcome.verdict.fidelity_reason
        assert completion.source == "choices[].token_ids"
        assert sum(len(choice.token_ids or ()) for choice in completion.choices) == completion.usage.completion_tokens
    if "logprobs" in one.request and one.name not in UNASKED:
        assert outcome.verdict.logprobs_fidelity == "exact"


@pytest.mark.parametrize(("whole", "stream"), TWINS)
def test_a_streamed_answer_reads_as_its_whole_twin(whole: str, stream: str) -> None:
    one, other = recording(ENGINE, whole), recording(ENGINE, stream)
    at_once = read(one, as_asked(one))[1].completion
    in_parts = read(other, as_asked(other))[1].completion
    assert in_parts.prompt_token_ids == at_once.prompt_token_ids
    for usage in (in_parts.usage, at_once.usage):
        assert usage is not None
        # The engine's own count of reasoning tokens is another in a stream (14 and 16 for the emoji).
        assert (usage.prompt_tokens, usage.completion_tokens) == (
            len(at_once.prompt_token_ids or ()),
            sum(len(choice.token_ids or ()) for choice in at_once.choices),
        )
    for part, full in zip(in_parts.choices, at_once.choices, strict=True):
        assert part.token_ids == full.token_ids
        assert part.logprobs == full.logprobs
        assert (part.text, part.reasoning) == (full.text, full.reasoning)
        assert (part.finish_reason, part.stop_reason) == (full.finish_reason, full.stop_reason)
        calls = [[(call.name, json.loads(call.arguments or "")) for call in c.tool_calls or ()] for c in (part, full)]
        assert calls[0] == calls[1]


@pytest.mark.parametrize("one", STREAMS, ids=lambda one: one.name)
def test_a_stream_reads_the_same_however_it_is_cut(one: Recording) -> None:
    assert_reads_the_same_however_it_is_cut(as_agent(one), one.body, cut_points(one.body, small=500))


@pytest.mark.parametrize("one", STREAMS, ids=lambda one: one.name)
def test_a_stream_that_breaks_off_keeps_the_ids_so_far(one: Recording) -> None:
    for outcome, _ in broken_off(as_asked(one), one.body, cut_points(one.body, small=500)):
        if not outcome.finished:
            assert b"[DONE]" not in outcome.client


@pytest.mark.parametrize("one", STREAMS, ids=lambda one: one.name)
def test_the_end_is_marked_from_the_chunk_that_ends_the_last_choice(one: Recording) -> None:
    pieces, _ = streamed(as_agent(one), one.body)
    open_choices = set(range(one.request.get("n", 1)))
    for piece in pieces:
        open_choices -= {delta.index for delta in piece.deltas if delta.finish_reason}
        assert piece.ends is (not open_choices)


@pytest.mark.parametrize("one", STREAMS, ids=lambda one: one.name)
def test_the_deltas_say_what_the_completion_says(one: Recording) -> None:
    pieces, outcome = streamed(as_agent(one), one.body)
    for choice in outcome.completion.choices:
        mine = [delta for piece in pieces for delta in piece.deltas if delta.index == choice.index]
        assert "".join(delta.text or "" for delta in mine) == choice.text
        assert "".join(delta.reasoning or "" for delta in mine) == (choice.reasoning or "")
        assert [delta.finish_reason for delta in mine if delta.finish_reason] == [choice.finish_reason][
            : outcome.finished
        ]
        ids = [token for delta in mine if delta.token_ids is not None for token in json.loads(bytes(delta.token_ids))]
        assert ids == list(choice.token_ids or ())
        arguments = "".join(call.arguments or "" for delta in mine for call in delta.tool_calls)
        assert arguments == "".join(call.arguments or "" for call in choice.tool_calls or ())


def plain(value: Any) -> Any:
    """An answer without what differs from call to call, and without members that are null for want of a flag."""
    if isinstance(value, dict):
        dropped = {"id", "created", "system_fingerprint", "token_ids", "prompt_token_ids"}
        return {key: plain(item) for key, item in value.items() if key not in dropped}
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("with_flags", ["chat_stream", "chat_stream_usage", "chat_stream_logprobs"])
def test_an_agent_that_asks_for_nothing_sees_the_stream_that_the_engine_gives_without_flags(with_flags: str) -> None:
    one, bare = recording(ENGINE, with_flags), recording(ENGINE, "chat_stream_noflags")
    client = client_bytes(*streamed(as_agent(one), one.body))
    assert plain(chunks_of(client)) == plain(chunks_of(bare.body))
    for chunk in chunks_of(client)[:-1]:
        assert not {"prompt_token_ids", "usage"} & chunk.keys()
        assert all("token_ids" not in choice for choice in chunk["choices"])


@pytest.mark.parametrize(
    ("with_flags", "without"),
    [
        ("chat_plain_logprobs", "chat_plain_noflags"),
        ("completion_logprobs", "completion_noflags"),
        ("completion", "completion_noflags"),
    ],
)
def test_an_agent_that_asks_for_nothing_sees_the_answer_that_the_engine_gives_without_flags(
    with_flags: str, without: str
) -> None:
    one, bare = recording(ENGINE, with_flags), recording(ENGINE, without)
    client = json.loads(AnswerReader(as_agent(one)).whole(one.body).client)
    assert plain(client) == plain(json.loads(bare.body))


def test_an_agent_that_asks_for_logprobs_alone_sees_what_the_engine_gives_for_that() -> None:
    one, bare = recording(ENGINE, "chat_plain_logprobs"), recording(ENGINE, "chat_logprobs_noflags")
    plan = as_agent(one, "logprobs", "top_logprobs")
    client = json.loads(AnswerReader(plan).whole(one.body).client)
    without_top: Any = {"top_logprobs": []}
    for answer in (client, bared := json.loads(bare.body)):
        for entry in answer["choices"][0]["logprobs"]["content"]:
            entry.update(without_top)  # The two calls asked for different numbers of them.
    assert plain(client) == plain(bared)


def test_logprobs_without_top_logprobs_come_with_those_empty() -> None:
    one = recording(ENGINE, "chat_plain_logprobs")
    plan, _ = planned({"messages": [], "logprobs": True}, VLLM.server("0.25.0"))
    client = json.loads(AnswerReader(plan).whole(one.body).client)
    entries = client["choices"][0]["logprobs"]["content"]
    assert len(entries) == 10
    assert all(entry["top_logprobs"] == [] for entry in entries)


def test_numbers_reach_the_agent_with_the_digits_that_the_engine_wrote() -> None:
    one = recording(ENGINE, "chat_stream_logprobs")
    client = client_bytes(*streamed(as_agent(one, "logprobs", "top_logprobs"), one.body))
    assert b"-0.00006937739817658439" in client
    assert b"6.9377" not in client


def test_an_agent_that_asked_for_everything_itself_gets_the_bytes_as_they_came() -> None:
    one = recording(ENGINE, "chat_stream_logprobs")
    assert client_bytes(*streamed(as_asked(one), one.body)) == one.body
    whole = recording(ENGINE, "chat_plain_logprobs")
    assert AnswerReader(as_asked(whole)).whole(whole.body).client == whole.body


def test_chunks_that_only_our_flags_brought_are_not_sent() -> None:
    one = recording(ENGINE, "chat_tools_stream")
    pieces, outcome = streamed(as_agent(one), one.body)
    chunks = chunks_of(client_bytes(pieces, outcome))
    assert all(choice["delta"] or choice["finish_reason"] for chunk in chunks[:-1] for choice in chunk["choices"])
    assert chunks[-2]["choices"][0] == {
        "index": 0,
        "delta": {},
        "logprobs": None,
        "finish_reason": "tool_calls",
        "stop_reason": None,
    }
    assert len(outcome.completion.choices[0].token_ids or ()) == 20


def test_reasoning_that_an_agent_does_not_want_is_taken_out() -> None:
    stream, whole = recording(ENGINE, "chat_tools_think_stream"), recording(ENGINE, "chat_think")
    for one in (stream, whole):
        body = {**body_of(one), "include_reasoning": False}
        plan, _ = planned(body, SERVER)
        pieces, outcome = read(one, plan)
        assert b'reasoning"' not in client_bytes(pieces, outcome)
        assert outcome.completion.choices[0].reasoning
        assert outcome.verdict.fidelity == "exact"
    chunks = chunks_of(
        client_bytes(*streamed(planned({**body_of(stream), "include_reasoning": False}, SERVER)[0], stream.body))
    )
    # The agent asked for ids: chunks that have none but these stay.
    assert any(choice["delta"] == {} for chunk in chunks[:-1] for choice in chunk["choices"])


def test_a_stream_answered_to_a_call_that_wanted_a_whole_answer_folds_into_one() -> None:
    stream, whole = recording(ENGINE, "chat_stream_logprobs"), recording(ENGINE, "chat_plain_logprobs")
    plan = as_asked(whole)
    pieces, outcome = streamed(plan, stream.body)
    assert all(piece.client == b"" for piece in pieces)
    folded, at_once = plain(json.loads(outcome.client)), plain(json.loads(whole.body))
    assert outcome.verdict == AnswerReader(plan).whole(whole.body).verdict
    choice, twin = folded["choices"][0], at_once["choices"][0]
    assert choice["message"] == {key: value for key, value in twin["message"].items() if key in choice["message"]}
    assert (choice["finish_reason"], choice["logprobs"]) == (twin["finish_reason"], twin["logprobs"])
    assert folded["object"] == "chat.completion"
    assert folded["usage"]["completion_tokens"] == at_once["usage"]["completion_tokens"]


def test_a_whole_answer_to_a_call_that_wanted_a_stream_is_given_whole() -> None:
    whole, stream = recording(ENGINE, "chat_plain_logprobs"), recording(ENGINE, "chat_stream_logprobs")
    outcome = AnswerReader(as_agent(stream)).whole(whole.body)
    assert outcome.finished
    assert outcome.verdict.fidelity == "exact"
    assert b"token_ids" not in outcome.client


@pytest.mark.parametrize("one", REFUSALS, ids=lambda one: one.name)
def test_a_refusal_keeps_the_engines_words(one: Recording) -> None:
    told = json.loads(one.body)["error"] if one.name != "err_404" else {"message": json.loads(one.body)["detail"]}
    error = read_error(one.status, one.body)
    assert error.message == told["message"]
    assert error.code == one.status
    assert error.type == told.get("type")


@pytest.mark.parametrize("name", ["vllm_inference_generate", "vllm_generate_stream"])
def test_the_token_in_endpoint_is_read_too(name: str) -> None:
    one = recording(ENGINE, name)
    plan = bare_plan("vllm", {"prompt": one.request["token_ids"]}, mode="streamed" if one.streamed else "whole")
    outcome = read(one, plan)[1]
    assert outcome.completion.choices[0].token_ids is not None
    assert outcome.completion.choices[0].token_ids.tolist() == [1052, 572, 264, 13673, 1614, 13, 151643]
    assert outcome.completion.choices[0].stop_reason == 151643
    assert outcome.completion.prompt_token_ids is not None
    assert outcome.verdict.fidelity == ("partial" if one.streamed else "exact")


@pytest.mark.parametrize(("name", "reasoning"), [("vllm_messages", True), ("vllm_responses", True)])
def test_the_other_surfaces_are_read_as_text(name: str, reasoning: bool) -> None:
    one = recording(ENGINE, name)
    outcome = AnswerReader(bare_plan("vllm", {"messages": []}, mode="whole")).whole(one.body)
    assert outcome.verdict.fidelity == "none"
    assert outcome.completion.choices[0].reasoning == "Hello! I am a tiny scripted model."
    assert outcome.completion.usage is not None
    assert outcome.completion.usage.completion_tokens == 10


def test_prompts_sent_together_keep_their_own_ids() -> None:
    one = recording(ENGINE, "completion_batch")
    outcome = read(one, as_asked(one))[1]
    assert outcome.completion.prompt_token_ids is None
    assert [choice.prompt_token_ids.tolist() for choice in outcome.completion.choices if choice.prompt_token_ids] == [
        [12522, 5193, 264, 882],
        [785, 3974, 13876, 38835],
    ]
