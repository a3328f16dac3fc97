"""What is sent to a server that gives text alone: only what OpenAI's own API has."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.engines import ENGINES, UnknownEngine, adapter_for
from adapters.plan import Strip
from tests.adapters.cases import examples, planned, streamed

SERVER = adapter_for("openai").server()
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


def test_a_whole_request_goes_as_it_came() -> None:
    body = {**HELLO, "temperature": 0.5, "logprobs": True, "top_logprobs": 2}
    plan, upstream = planned(body, SERVER)
    assert upstream == body
    assert (plan.mode, plan.path, plan.strip, plan.logprobs_asked) == ("whole", "/v1/chat/completions", Strip(), True)


def test_a_stream_is_asked_for_its_usage() -> None:
    plan, upstream = planned({**HELLO, "stream": True}, SERVER)
    assert upstream == {**HELLO, "stream": True, "stream_options": {"include_usage": True}}
    assert plan.strip == Strip(usage=True)


def test_no_flag_of_another_engine_reaches_it() -> None:
    plan, upstream = planned({**HELLO, "return_token_ids": True}, SERVER)
    assert upstream == HELLO
    assert plan.inject_token_ids


def test_a_server_that_refuses_stream_options_is_asked_without() -> None:
    body = {**HELLO, "stream": True}
    plan, _ = planned(body, SERVER)
    taught = adapter_for("openai").refused(plan, 400, b'{"error":{"message":"Unknown parameter: stream_options"}}')
    assert taught is not None
    assert planned(body, taught)[1] == body


def test_the_text_is_read_and_its_ids_are_not_known() -> None:
    (example,) = [one for one in examples("generic") if one.file.endswith("local_server_usage_on_final_chunk.sse")]
    plan, _ = planned({**HELLO, "stream": True}, SERVER)
    _, outcome = streamed(plan, example.body)
    assert outcome.completion.choices[0].text == "Hello world!"
    assert outcome.completion.usage is not None
    assert outcome.completion.usage.completion_tokens == 3
    assert outcome.verdict.fidelity == "none"
    assert outcome.verdict.logprobs_reason == "none were asked for"


def test_an_unknown_engine_is_told_the_known_ones() -> None:
    with pytest.raises(UnknownEngine, match=r"unknown engine 'vlm'; known are .*vllm") as caught:
        adapter_for("vlm")
    assert caught.value.engine == "vlm"
    assert {"vllm", "openai"} <= set(ENGINES)
