"""TensorRT-LLM: what is sent to it, and what is read in its answers."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.detect import Configured, Reply
from adapters.engines import adapter_for, identify
from tests.adapters.cases import Example, examples, planned
from tests.adapters.expecting import assert_reads_as_expected, plan_of

SERVER = adapter_for("trtllm").server()
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}

# `exact` needs the engine's own count, and this has none.
WITHOUT_COUNT = {"trtllm/completion_detokenize_false_stream.sse"}


@pytest.mark.parametrize(
    "example", [one for one in examples("trtllm") if one.status == 200], ids=lambda example: example.file
)
def test_an_example_reads_as_expected(example: Example) -> None:
    fidelity = "partial" if example.file in WITHOUT_COUNT else None
    assert_reads_as_expected(example, plan_of(example, SERVER), fidelity=fidelity)


@pytest.mark.parametrize("stream", [False, True])
def test_nothing_is_sent_that_it_does_not_know(stream: bool) -> None:
    body = {**HELLO, "stream": stream, "return_token_ids": True}
    plan, upstream = planned(body, SERVER)
    usage = {"stream_options": {"include_usage": True}} if stream else {}
    assert upstream == {**HELLO, "stream": stream, **usage}
    assert "not detokenized" in (plan.without_ids or "")


def test_it_is_told_from_vllm_by_the_owner_of_its_models() -> None:
    replies = {
        "/v1/models": Reply(200, body=b'{"data":[{"id":"m","owned_by":"tensorrt_llm"}]}'),
        "/version": Reply(200, body=b'{"version":"1.2.0"}'),
        "/health": Reply(200),
    }
    server = identify(replies, Configured())
    assert (server.engine, server.version) == ("trtllm", "1.2.0")
