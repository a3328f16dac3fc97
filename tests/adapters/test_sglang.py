"""SGLang in its versions, fork and patch: what is asked of each, and what the agent sees of the answer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from adapters.answer import AnswerReader
from adapters.engines import adapter_for
from adapters.schema import Capture, WeightSpan
from adapters.server import Server
from adapters.token_ids import TokenIds
from tests.adapters.cases import chunks_of, client_bytes, planned, recording, streamed

HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Say hello."}]}
ONCE: dict[str, Any] = {"model": "m", "prompt": "Once"}
STREAM: dict[str, Any] = {"stream": True}
USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}

PROMPT_FLAG = {"return_prompt_token_ids": True}
WHOLE_FLAGS = {"return_prompt_token_ids": True, "return_token_ids": True, "logprobs": True}
TRIPLES_FLAGS = {"return_prompt_token_ids": True, "return_meta_info": True, "logprobs": True}
FORK_FLAGS = {"return_prompt_token_ids": True, "return_completion_token_ids": True, "logprobs": True}
SGLEXT_FLAGS = {"return_input_ids_in_sglext": True, "return_output_ids_in_sglext": True, "logprobs": True}
LOGPROBS = {"logprobs": True}
NOTHING: dict[str, Any] = {}


def sglang(version: str | None = None, variant: str | None = None) -> Server:
    return adapter_for("sglang").server(version, variant)


NEWEST = sglang("0.5.23")


@pytest.mark.parametrize(
    ("version", "variant", "flags"),
    [
        ("0.5.9", None, NOTHING),
        ("0.5.12", None, NOTHING),
        ("0.5.12.post1", None, NOTHING),
        ("0.5.13", None, TRIPLES_FLAGS),
        ("0.5.16.post1", None, TRIPLES_FLAGS),
        ("0.5.17", None, WHOLE_FLAGS),
        ("0.5.19", None, WHOLE_FLAGS),
        ("0.5.20", None, WHOLE_FLAGS),
        ("0.5.23", None, WHOLE_FLAGS),
        ("0.6.0", None, WHOLE_FLAGS),
        ("0.5.9", "agentcore", LOGPROBS),
        ("0.5.12.post1", "agentcore", LOGPROBS),
        ("0.5.11", "llm360", FORK_FLAGS),
        (None, "llm360", FORK_FLAGS),
        # Of a server that does not say what it is everything is asked that any would ignore.
        (None, None, {**WHOLE_FLAGS, "return_completion_token_ids": True, "return_meta_info": True}),
    ],
)
def test_a_whole_chat_asks_what_the_version_knows(
    version: str | None, variant: str | None, flags: dict[str, Any]
) -> None:
    plan, sent = planned(HELLO, sglang(version, variant))
    assert (plan.mode, plan.path) == ("whole", "/v1/chat/completions")
    assert sent == {**HELLO, **flags}
    assert plan.logprobs_asked == ("logprobs" in flags)


@pytest.mark.parametrize(
    ("version", "variant", "capture", "mode", "added"),
    [
        ("0.5.9", None, "exact", "streamed", USAGE),
        ("0.5.9", None, "ids", "streamed", USAGE),
        ("0.5.9", None, "stream", "streamed", USAGE),
        ("0.5.13", None, "exact", "buffered", TRIPLES_FLAGS),
        ("0.5.13", None, "ids", "buffered", TRIPLES_FLAGS),
        ("0.5.13", None, "stream", "streamed", USAGE),
        ("0.5.18", None, "exact", "buffered", WHOLE_FLAGS),
        ("0.5.18", None, "ids", "buffered", WHOLE_FLAGS),
        ("0.5.18", None, "stream", "streamed", USAGE),
        ("0.5.23", None, "exact", "buffered", WHOLE_FLAGS),
        ("0.5.23", None, "ids", "streamed", {**USAGE, **SGLEXT_FLAGS}),
        ("0.5.23", None, "stream", "streamed", {**USAGE, **SGLEXT_FLAGS}),
        ("0.5.9", "agentcore", "exact", "buffered", LOGPROBS),
        ("0.5.9", "agentcore", "ids", "streamed", {**USAGE, **LOGPROBS}),
        ("0.5.9", "agentcore", "stream", "streamed", {**USAGE, **LOGPROBS}),
        ("0.5.11", "llm360", "exact", "buffered", FORK_FLAGS),
        ("0.5.11", "llm360", "ids", "buffered", FORK_FLAGS),
        ("0.5.11", "llm360", "stream", "streamed", USAGE),
    ],
)
def test_a_streamed_chat_is_buffered_where_the_stream_would_lose_what_is_to_be_captured(
    version: str, variant: str | None, capture: Capture, mode: str, added: dict[str, Any]
) -> None:
    plan, sent = planned({**HELLO, **STREAM}, sglang(version, variant), capture=capture)
    assert plan.mode == mode
    assert (plan.reason is None) == (mode == "streamed")
    assert sent == {**HELLO, **added}


@pytest.mark.parametrize(
    ("version", "variant", "flags"),
    [
        ("0.5.16", None, NOTHING),
        ("0.5.17", None, {"return_token_ids": True, "logprobs": 0}),
        ("0.5.23", None, {"return_token_ids": True, "logprobs": 0}),
        (None, None, {"return_token_ids": True, "logprobs": 0}),
        ("0.5.9", "agentcore", NOTHING),
        ("0.5.11", "llm360", NOTHING),
    ],
)
@pytest.mark.parametrize("capture", ["exact", "ids", "stream"])
def test_completions_stream_whatever_is_to_be_captured(
    version: str | None, variant: str | None, flags: dict[str, Any], capture: Capture
) -> None:
    server = sglang(version, variant)
    whole, sent_whole = planned(ONCE, server, endpoint="completions", capture=capture)
    stream, sent_stream = planned({**ONCE, **STREAM}, server, endpoint="completions", capture=capture)
    assert (whole.mode, whole.path, sent_whole) == ("whole", "/v1/completions", {**ONCE, **flags})
    assert (stream.mode, stream.path, sent_stream) == ("streamed", "/v1/completions", {**ONCE, **USAGE, **flags})


@pytest.mark.parametrize(
    ("body", "endpoint", "version", "capture", "word"),
    [
        (HELLO, "chat", "0.5.12", "exact", "/generate"),
        ({**HELLO, **STREAM}, "chat", "0.5.12", "exact", "/generate"),
        ({**HELLO, **STREAM}, "chat", "0.5.18", "stream", "capture: stream"),
        (ONCE, "completions", "0.5.16", "exact", "0.5.17"),
    ],
)
def test_a_call_that_can_have_no_ids_says_why(
    body: dict[str, Any], endpoint: str, version: str, capture: Capture, word: str
) -> None:
    plan, _ = planned(body, sglang(version), endpoint=endpoint, capture=capture)
    answer = b'{"choices":[{"index":0,"text":"Hi","message":{"content":"Hi"},"finish_reason":"stop"}]}'
    verdict = AnswerReader(plan).whole(answer).verdict
    assert verdict.fidelity == "none"
    assert word in (verdict.fidelity_reason or "")


def test_several_choices_ask_for_the_weights_of_each() -> None:
    _, sent = planned({**HELLO, "n": 2}, NEWEST)
    assert sent == {**HELLO, "n": 2, **WHOLE_FLAGS, "return_meta_info": True}


def test_the_two_ways_to_have_ids_are_never_asked_for_at_once() -> None:
    asked = {"return_output_ids_in_sglext": True}
    for capture in ("exact", "ids", "stream"):
        for body in ({**HELLO, **asked}, {**HELLO, **STREAM, **asked}):
            _, sent = planned(body, NEWEST, capture=capture)
            assert "return_token_ids" not in sent
            assert SGLEXT_FLAGS.items() <= sent.items()


def test_an_agents_return_token_ids_is_never_sent_to_a_stream_that_refuses_it() -> None:
    asked = {"return_token_ids": True}
    for version in ("0.5.9", "0.5.18", "0.5.23"):
        plan, sent = planned({**HELLO, **STREAM, **asked}, sglang(version), capture="stream")
        assert (plan.mode, plan.inject_token_ids) == ("streamed", True)
        assert "return_token_ids" not in sent


def test_an_agent_that_asks_for_what_streams_refuse_has_it_from_a_whole_answer() -> None:
    asked = {"return_meta_info": True}
    plan, sent = planned({**HELLO, **STREAM, **asked}, NEWEST, capture="ids")
    assert plan.mode == "buffered"
    assert sent == {**HELLO, **asked, **WHOLE_FLAGS}
    # With `stream` it hears the server's own refusal.
    plan, sent = planned({**HELLO, **STREAM, **asked}, NEWEST, capture="stream")
    assert (plan.mode, sent["return_meta_info"]) == ("streamed", True)


@pytest.mark.parametrize("asked", [{"logprobs": False}, {"logprobs": None}, {"top_logprobs": None}])
def test_logprobs_are_asked_for_whatever_the_agent_says_of_them(asked: dict[str, Any]) -> None:
    _, sent = planned({**HELLO, **asked}, NEWEST)
    assert sent == {**HELLO, **WHOLE_FLAGS}


def test_stream_options_go_with_streams_alone() -> None:
    options = {"stream_options": {"include_usage": True}}
    assert "stream_options" not in planned({**HELLO, **options}, NEWEST)[1]
    buffered, sent = planned({**HELLO, **STREAM, **options}, NEWEST)
    assert buffered.mode == "buffered"
    assert not {"stream", "stream_options"} & sent.keys()


def without_stamps(body: bytes) -> bytes:
    """Without what differs from call to call."""
    return re.sub(rb'"(id|created)":("[^"]*"|[0-9]+)', rb'"\1":0', body)


# This version knows no `return_completion_token_ids`: answers that were asked so are those of a plain agent.
@pytest.mark.parametrize(
    ("answered", "plain"),
    [("f_rti_lp_chat", "chat_plain_noflags"), ("f_rpti_chat", "f_rcti_chat"), ("f_rti_lp_tools", "f_rcti_tools")],
)
def test_a_plain_agent_sees_what_it_would_have_seen_without_us(answered: str, plain: str) -> None:
    direct = recording("sglang-0.5.23", plain)
    plan, _ = planned(direct.request, NEWEST)
    outcome = AnswerReader(plan).whole(recording("sglang-0.5.23", answered).body)
    assert json.loads(without_stamps(outcome.client)) == json.loads(without_stamps(direct.body))


@pytest.mark.parametrize(
    ("answered", "plain"),
    [("f_sglext_chat_stream", "f_rcti_chat_stream"), ("f_sglext_tools_stream", "f_rcti_tools_stream")],
)
def test_a_plain_agents_stream_is_what_it_would_have_been_without_us(answered: str, plain: str) -> None:
    direct = recording("sglang-0.5.23", plain)
    plan, _ = planned(direct.request, NEWEST, capture="ids")
    pieces, outcome = streamed(plan, recording("sglang-0.5.23", answered).body)
    assert outcome.verdict.fidelity == "exact"
    seen = chunks_of(without_stamps(client_bytes(pieces, outcome)))
    assert seen[-1] == "[DONE]"
    assert seen == chunks_of(without_stamps(direct.body))


def test_usage_that_the_agent_did_not_ask_for_does_not_reach_it() -> None:
    direct = recording("sglang-0.5.23-sglext", "chat_stream_noflags")
    plan, _ = planned(direct.request, NEWEST, capture="ids")
    pieces, outcome = streamed(plan, recording("sglang-0.5.23", "f_sglext_chat_stream").body)
    assert outcome.verdict.fidelity == "exact"
    assert len(chunks_of(client_bytes(pieces, outcome))) == len(chunks_of(direct.body))
    assert b'"usage":{' not in client_bytes(pieces, outcome)


def test_a_patched_servers_unasked_ids_are_not_shown_to_a_plain_agent() -> None:
    server = sglang("0.5.9", "agentcore")
    whole = recording("sglang-0.5.9-agentcore", "chat_plain")
    plan, _ = planned(whole.request, server)
    outcome = AnswerReader(plan).whole(whole.body)
    assert outcome.verdict.fidelity == "exact"
    assert b"token_ids" not in outcome.client
    stream = recording("sglang-0.5.9-agentcore", "chat_stream_usage")
    plan, _ = planned(stream.request, server, capture="ids")
    pieces, outcome = streamed(plan, stream.body)
    assert outcome.verdict.fidelity == "exact"
    assert b"token_ids" not in client_bytes(pieces, outcome)
    # Chunks that had text or an end for the agent are all there.
    assert len(chunks_of(client_bytes(pieces, outcome))) == len(chunks_of(stream.body))


PROMPT = [151644, 872, 198, 45764, 23811, 13, 151645, 198, 151644, 77091, 198]
SAMPLED = [9707, 0, 358, 1079, 264, 13673, 85025, 1614, 13, 151645]


def test_return_token_ids_means_vllms_places_in_a_whole_answer() -> None:
    answered = recording("sglang-0.5.23", "f_rti_lp_chat")
    plan, _ = planned({**HELLO, "return_token_ids": True}, NEWEST)
    root = json.loads(AnswerReader(plan).whole(answered.body).client)
    assert root["prompt_token_ids"] == PROMPT
    assert root["choices"][0]["token_ids"] == SAMPLED
    assert not {"response_token_ids", "prompt_token_ids"} & root["choices"][0].keys()


def test_return_token_ids_means_vllms_places_in_a_stream_that_tells_them_last() -> None:
    answered = recording("sglang-0.5.23-sglext", "chat_stream")
    plan, _ = planned({**HELLO, **STREAM, "return_token_ids": True}, NEWEST, capture="ids")
    pieces, outcome = streamed(plan, answered.body)
    *_, last, done = chunks_of(client_bytes(pieces, outcome))
    assert done == "[DONE]"
    assert last["prompt_token_ids"] == PROMPT
    assert [choice["token_ids"] for choice in last["choices"]] == [SAMPLED]
    assert "sglext" not in last


def test_return_token_ids_means_vllms_places_from_a_patched_server_too() -> None:
    answered = recording("sglang-0.5.9-agentcore", "chat_stream_usage")
    plan, sent = planned({**answered.request, "return_token_ids": True}, sglang("0.5.9", "agentcore"), capture="ids")
    assert "return_token_ids" not in sent
    pieces, outcome = streamed(plan, answered.body)
    seen, direct = chunks_of(client_bytes(pieces, outcome)), chunks_of(answered.body)
    assert seen == direct


def test_what_an_agent_asks_for_by_sglangs_own_flags_stays_at_its_place() -> None:
    answered = recording("sglang-0.5.23", "f_all_ns_chat")
    plan, _ = planned({**HELLO, "return_prompt_token_ids": True, "return_meta_info": True}, NEWEST)
    [choice] = json.loads(AnswerReader(plan).whole(answered.body).client)["choices"]
    assert choice["prompt_token_ids"] == PROMPT
    assert choice["meta_info"]["completion_tokens"] == len(SAMPLED)
    assert "response_token_ids" not in choice
    plan, _ = planned({**HELLO, "return_output_ids_in_sglext": True}, NEWEST)
    root = json.loads(AnswerReader(plan).whole(recording("sglang-0.5.23-sglext", "chat_plain_logprobs").body).client)
    assert root["sglext"] == {"output_ids": [SAMPLED]}


def test_ids_that_are_told_twice_are_taken_once() -> None:
    plan, _ = planned(HELLO, NEWEST)
    completion = AnswerReader(plan).whole(recording("sglang-0.5.23", "f_all_ns_chat").body).completion
    assert completion.choices[0].token_ids == TokenIds(SAMPLED)
    assert completion.prompt_token_ids == TokenIds(PROMPT)
    assert completion.anomalies == ()


@pytest.mark.parametrize(("features", "mode"), [((), "processed"), (("original_logprobs",), "raw")])
def test_logprobs_are_processed_ones_unless_the_configuration_says_otherwise(
    features: tuple[str, ...], mode: str
) -> None:
    plan, _ = planned(HELLO, adapter_for("sglang").server("0.5.23", features=features))
    outcome = AnswerReader(plan).whole(recording("sglang-0.5.23", "f_rti_lp_chat").body)
    assert outcome.verdict.logprobs_fidelity == "exact"
    assert outcome.completion.logprobs_mode == mode


def test_a_server_that_decodes_without_logprobs_is_asked_for_ids_alone() -> None:
    plan, _ = planned(HELLO, NEWEST)
    body = b'{"object":"error","message":"Beam search does not support return_logprob.","code":400}'
    taught = adapter_for("sglang").refused(plan, 400, body)
    assert taught is not None
    _, sent = planned(HELLO, taught)
    assert sent == {**HELLO, "return_prompt_token_ids": True, "return_token_ids": True}


def test_each_choice_has_its_own_weights_where_meta_info_tells_them() -> None:
    plan, _ = planned({**HELLO, "n": 2}, NEWEST)
    body = {
        "choices": [
            {
                "index": index,
                "message": {"content": "Hi"},
                "finish_reason": "stop",
                "response_token_ids": [1, 2],
                "prompt_token_ids": [7],
                "meta_info": {"weight_version": version, "weight_versions": [span]},
            }
            for index, version, span in (
                (0, "v6", {"version": "v6", "start": 0, "end": 2}),
                (1, "v7", {"version": "v7", "start": 0, "end": 2}),
            )
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 4},
        "metadata": {"weight_version": "v6", "weight_versions": [{"version": "v6", "start": 0, "end": 2}]},
    }
    completion = AnswerReader(plan).whole(json.dumps(body).encode()).completion
    assert completion.weight_version == "v6"
    assert [choice.weight_versions for choice in completion.choices] == [
        (WeightSpan("v6", 0, 2),),
        (WeightSpan("v7", 0, 2),),
    ]


def test_weights_told_of_the_answer_are_the_first_choices_alone() -> None:
    plan, _ = planned({**HELLO, "n": 2}, NEWEST)
    completion = AnswerReader(plan).whole(recording("sglang-0.5.23", "rti_n2").body).completion
    assert completion.weight_version == "default"
    assert [choice.weight_versions for choice in completion.choices] == [(WeightSpan("default", 0, 8),), None]


def test_choices_that_disagree_on_their_weights_give_the_answer_none() -> None:
    plan, _ = planned({**HELLO, "n": 2}, NEWEST)
    body = b"""{"choices":[
        {"index":0,"message":{"content":"a"},"finish_reason":"stop","meta_info":{"weight_version":"v6"}},
        {"index":1,"message":{"content":"b"},"finish_reason":"stop","meta_info":{"weight_version":"v7"}}]}"""
    assert AnswerReader(plan).whole(body).completion.weight_version is None


@pytest.mark.parametrize(
    "place",
    [
        b'"sglext":{"routed_experts":"AQAAAAIAAAA="},"choices":[{"index":0,"message":{}}]',
        b'"choices":[{"index":0,"message":{},"meta_info":{"routed_experts":"AQAAAAIAAAA="}}]',
    ],
)
def test_routed_experts_are_bare_int32(place: bytes) -> None:
    plan, _ = planned({**HELLO, "return_routed_experts": True}, NEWEST)
    [choice] = AnswerReader(plan).whole(b"{" + place + b"}").completion.choices
    assert choice.routed_experts is not None
    assert choice.routed_experts.data == b"\x01\x00\x00\x00\x02\x00\x00\x00"
    assert (choice.routed_experts.shape, choice.routed_experts.dtype) == (None, "<i4")


@pytest.mark.parametrize(
    ("matched", "reason"),
    [(b"151645", 151645), (b'"7"', "7"), (b"[151645]", 151645), (b"[1,2]", None), (b"null", None)],
)
def test_the_stop_reason_is_what_matched(matched: bytes, reason: object) -> None:
    plan, _ = planned(HELLO, NEWEST)
    body = b'{"choices":[{"index":0,"message":{},"finish_reason":"stop","matched_stop":' + matched + b"}]}"
    [choice] = AnswerReader(plan).whole(body).completion.choices
    assert choice.stop_reason == reason


@pytest.mark.parametrize(
    "odd",
    [b'"metadata":7', b'"metadata":[]', b'"sglext":"no"', b'"sglext":{"output_ids":{"0":[1]}}', b'"sglext":[[1]]'],
)
def test_nonsense_beside_the_choices_breaks_nothing(odd: bytes) -> None:
    plan, _ = planned(HELLO, NEWEST)
    body = b'{"choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop","meta_info":3}],' + odd + b"}"
    outcome = AnswerReader(plan).whole(body)
    assert outcome.completion.choices[0].text == "Hi"
    assert outcome.verdict.fidelity == "none"


def test_a_refusal_of_our_flag_teaches_not_to_send_it_again() -> None:
    plan, sent = planned(HELLO, NEWEST)
    assert "return_prompt_token_ids" in sent
    words = "return_prompt_token_ids is not supported with streaming. Please set stream=false."
    body = json.dumps({"object": "error", "message": words, "type": "BadRequest", "param": None, "code": 400}).encode()
    taught = adapter_for("sglang").refused(plan, 400, body)
    assert taught is not None
    assert "return_prompt_token_ids" not in planned(HELLO, taught)[1]
    assert adapter_for("sglang").refused(plan, 400, b'{"object":"error","message":"Messages cannot be empty."}') is None
