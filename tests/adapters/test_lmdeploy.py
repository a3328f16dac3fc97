"""LMDeploy: what is sent to it, and what is read in its answers, the native ones among them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.answer import AnswerReader
from adapters.detect import Configured, Reply
from adapters.engines import adapter_for, corrected, identify, probes
from adapters.token_ids import TokenIds
from tests.adapters.cases import Example, examples, planned
from tests.adapters.expecting import assert_reads_as_expected, plan_of

LMDEPLOY = adapter_for("lmdeploy")
SERVER = LMDEPLOY.server(features={"logprobs"})
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.parametrize(
    "example", [one for one in examples("lmdeploy") if one.status == 200], ids=lambda example: example.file
)
def test_an_example_reads_as_expected(example: Example) -> None:
    assert_reads_as_expected(example, plan_of(example, SERVER))


def test_logprobs_are_asked_for_only_where_the_server_was_seen_to_give_them() -> None:
    assert planned(HELLO, LMDEPLOY.server())[1] == {**HELLO, "return_token_ids": True}
    assert planned(HELLO, SERVER)[1] == {**HELLO, "return_token_ids": True, "return_logprob": True}


def test_a_stream_is_streamed_with_its_usage() -> None:
    plan, upstream = planned({**HELLO, "stream": True}, LMDEPLOY.server())
    assert (plan.mode, upstream["stream_options"]) == ("streamed", {"include_usage": True})


def test_completions_are_sent_as_they_are_and_say_why_they_have_no_ids() -> None:
    plan, upstream = planned({"model": "m", "prompt": "a"}, SERVER, endpoint="completions")
    assert upstream == {"model": "m", "prompt": "a"}
    assert "completions" in (plan.without_ids or "")


def test_an_agent_that_asks_by_vllms_flag_gets_the_ids_at_vllms_place() -> None:
    plan, _ = planned({**HELLO, "return_token_ids": True}, SERVER)
    pairs = [[-0.5, 5]]
    choice = {"index": 0, "message": {"content": "a"}, "finish_reason": "stop", "output_ids": [5]}
    body = json.dumps({"choices": [{**choice, "output_token_logprobs": pairs}], "usage": {"completion_tokens": 1}})
    outcome = AnswerReader(plan).whole(body.encode())
    [seen] = json.loads(outcome.client)["choices"]
    assert seen == {"index": 0, "message": {"content": "a"}, "finish_reason": "stop", "token_ids": [5]}
    assert outcome.completion.choices[0].token_ids == TokenIds([5])
    assert outcome.completion.choices[0].logprobs == (-0.5,)


def test_a_probe_shows_whether_it_gives_logprobs() -> None:
    models = {"/v1/models": Reply(200, body=b'{"data":[{"id":"m","owned_by":"lmdeploy"}]}')}
    heard = identify(models, Configured())
    [probe] = probes(heard)
    assert json.loads(probe.body or b"")["return_logprob"] is True
    refused = Reply(400, body=b'{"object":"error","message":"return_logprob needs logprobs_mode","code":400}')
    given = Reply(200, body=b'{"choices":[{"index":0,"output_ids":[5],"output_token_logprobs":[[-0.5,5]]}]}')
    assert corrected(heard, {probe.key: refused}).features == {"token_ids", "usage"}
    assert corrected(heard, {probe.key: given}).features == {"token_ids", "usage", "logprobs"}
