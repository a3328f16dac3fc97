"""What is read in SGLang's answers, and what the agent sees of them."""

from __future__ import annotations

import json
import re

import pytest

from adapters.answer import AnswerReader
from adapters.engines import adapter_for
from adapters.schema import WeightSpan
from adapters.token_ids import TokenIds
from tests.adapters.cases import chunks_of, client_bytes, planned, recording, streamed
from tests.adapters.sglang import HELLO, NEWEST, STREAM, sglang


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
