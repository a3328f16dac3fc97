"""Whatever comes in, OpenAI's two older dialects read it or say what is wrong, and every engine has a plan for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.engines import ENGINES, adapter_for
from gateway.dialects.chat import ChatDialect
from gateway.dialects.completions import CompletionsDialect
from gateway.dialects.dialect import BadRequest

SERVERS = [adapter_for(engine).server() for engine in ENGINES]

words = st.sampled_from(
    ["user", "tool", "none", "auto", "function", "text", "engine_data", "extra_fields", "include_usage"]
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8), words)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words | st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)
shared = dict.fromkeys(
    ("model", "stream", "stream_options", "n", "logprobs", "return_token_ids", "nvext", "max_tokens", "stop", "echo"),
    anything,
)
chats = st.fixed_dictionaries(
    {"messages": st.lists(anything, max_size=3) | anything},
    optional=shared
    | dict.fromkeys(("tools", "tool_choice", "top_logprobs", "max_completion_tokens", "include_reasoning"), anything),
)
ids = st.lists(st.integers(-1, 2**33), max_size=3)
completions = st.fixed_dictionaries(
    {
        "prompt": st.text(max_size=3)
        | ids
        | st.lists(ids, max_size=3)
        | st.lists(st.text(max_size=3), max_size=3)
        | anything
    },
    optional=shared,
)


def _read_and_planned(dialect: ChatDialect | CompletionsDialect, asked: Any) -> None:
    try:
        request = dialect.read(json.dumps(asked).encode())
    except BadRequest as exc:
        told = json.loads(dialect.error_body(400, exc.error))["error"]
        assert told.keys() == {"message", "type", "param", "code"}
        assert told["type"] == "invalid_request_error"
        assert told["message"]
        return
    assert request.prompts >= 0
    assert request.n >= 1
    for server in SERVERS:
        plan = adapter_for(server.engine).plan(request, server, "exact")
        assert isinstance(json.loads(plan.body), dict)


@settings(max_examples=150, deadline=None)
@given(chats)
def test_any_chat_is_read_and_planned_or_refused_with_a_sentence(asked: dict[str, Any]) -> None:
    _read_and_planned(ChatDialect(), asked)


@settings(max_examples=150, deadline=None)
@given(completions)
def test_any_completion_is_read_and_planned_or_refused_with_a_sentence(asked: dict[str, Any]) -> None:
    _read_and_planned(CompletionsDialect(), asked)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_refused(body: bytes) -> None:
    for dialect in (ChatDialect(), CompletionsDialect()):
        with pytest.raises(BadRequest, match=r"."):
            dialect.read(body)
