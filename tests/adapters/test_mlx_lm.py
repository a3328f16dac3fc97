"""mlx-lm: what is sent to it, and what is read in its answers."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.answer import AnswerReader
from adapters.detect import Configured, Reply
from adapters.engines import adapter_for, identify
from adapters.schema import Capture
from tests.adapters.cases import Example, changes, examples, planned
from tests.adapters.expecting import assert_reads_as_expected, plan_of

SERVER = adapter_for("mlx_lm").server()
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.parametrize(
    "example", [one for one in examples("mlx_lm") if one.status == 200], ids=lambda example: example.file
)
def test_an_example_reads_as_expected(example: Example) -> None:
    assert_reads_as_expected(example, plan_of(example, SERVER), ignored=frozenset({"source"}))


@pytest.mark.parametrize(
    ("body", "capture", "mode", "flags"),
    [
        ({}, "exact", "whole", {"logprobs": True}),
        ({"logprobs": False}, "exact", "whole", {"logprobs": True}),
        ({"stream": True}, "exact", "buffered", {"logprobs": True, "stream": None}),
        ({"stream": True}, "stream", "streamed", {"stream_options": {"include_usage": True}}),
        # The entries would name the likeliest tokens, so that there is nothing to wait for.
        (
            {"stream": True, "logprobs": True, "top_logprobs": 2},
            "exact",
            "streamed",
            {"stream_options": {"include_usage": True}},
        ),
    ],
)
def test_a_whole_answer_is_asked_for_where_it_tells_more(
    body: dict[str, Any], capture: Capture, mode: str, flags: dict[str, Any]
) -> None:
    asked = {**HELLO, **body}
    plan, upstream = planned(asked, SERVER, capture=capture)
    assert plan.mode == mode
    assert changes(asked, upstream) == flags
    assert (plan.without_ids is None) == (mode != "streamed")


def test_the_likeliest_tokens_are_not_taken_for_the_sampled_ones() -> None:
    plan, _ = planned({**HELLO, "logprobs": True, "top_logprobs": 2}, SERVER)
    body = (
        b'{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop",'
        b'"logprobs":{"content":[{"id":5,"logprob":-0.5}]}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
    )
    outcome = AnswerReader(plan).whole(body)
    assert outcome.completion.choices[0].token_ids is None
    assert outcome.verdict.fidelity == "none"
    assert "likeliest" in (outcome.verdict.fidelity_reason or "")
    assert outcome.client == body


def test_it_is_known_by_models_without_an_owner_and_its_health() -> None:
    models = Reply(200, body=b'{"object":"list","data":[{"id":"m","object":"model","created":1}]}')
    health = Reply(200, body=b'{"status":"ok"}')
    assert identify({"/v1/models": models, "/health": health}, Configured()).engine == "mlx_lm"
    assert identify({"/v1/models": models}, Configured()).engine == "openai"
