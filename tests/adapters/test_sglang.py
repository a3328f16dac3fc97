"""SGLang in its versions, fork and patch: what is asked of each, and what its refusals teach."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.answer import AnswerReader
from adapters.engines import adapter_for
from adapters.schema import Capture
from tests.adapters.cases import planned
from tests.adapters.sglang import HELLO, NEWEST, STREAM, sglang

ONCE: dict[str, Any] = {"model": "m", "prompt": "Once"}
USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
PROMPT_FLAG = {"return_prompt_token_ids": True}
WHOLE_FLAGS = {"return_prompt_token_ids": True, "return_token_ids": True, "logprobs": True}
TRIPLES_FLAGS = {"return_prompt_token_ids": True, "return_meta_info": True, "logprobs": True}
FORK_FLAGS = {"return_prompt_token_ids": True, "return_completion_token_ids": True, "logprobs": True}
SGLEXT_FLAGS = {"return_input_ids_in_sglext": True, "return_output_ids_in_sglext": True, "logprobs": True}
LOGPROBS = {"logprobs": True}
NOTHING: dict[str, Any] = {}


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


def test_a_server_that_decodes_without_logprobs_is_asked_for_ids_alone() -> None:
    plan, _ = planned(HELLO, NEWEST)
    body = b'{"object":"error","message":"Beam search does not support return_logprob.","code":400}'
    taught = adapter_for("sglang").refused(plan, 400, body)
    assert taught is not None
    _, sent = planned(HELLO, taught)
    assert sent == {**HELLO, "return_prompt_token_ids": True, "return_token_ids": True}


def test_a_refusal_of_our_flag_teaches_not_to_send_it_again() -> None:
    plan, sent = planned(HELLO, NEWEST)
    assert "return_prompt_token_ids" in sent
    words = "return_prompt_token_ids is not supported with streaming. Please set stream=false."
    body = json.dumps({"object": "error", "message": words, "type": "BadRequest", "param": None, "code": 400}).encode()
    taught = adapter_for("sglang").refused(plan, 400, body)
    assert taught is not None
    assert "return_prompt_token_ids" not in planned(HELLO, taught)[1]
    assert adapter_for("sglang").refused(plan, 400, b'{"object":"error","message":"Messages cannot be empty."}') is None
