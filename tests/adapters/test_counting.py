"""What a server is asked for the length of a chat's prompt, and what its reply says."""

from __future__ import annotations

import pytest
from msgspec import Raw

from adapters.detect import Question, Reply
from adapters.engines import ENGINES, adapter_for
from adapters.request import CanonicalRequest

CHAT = CanonicalRequest(
    "chat",
    {
        "model": Raw(b'"m"'),
        "messages": Raw(b'[{"role":"user","content":"Hi"}]'),
        "tools": Raw(b"[1]"),
        "chat_template_kwargs": Raw(b'{"a":1}'),
        "max_tokens": Raw(b"5"),
    },
    "m",
)
PROMPT = CanonicalRequest("completions", {"prompt": Raw(b'"Once"')}, "m")


@pytest.mark.parametrize(("engine", "path"), [("vllm", "/tokenize"), ("sglang", "/v1/tokenize")])
def test_a_server_that_counts_is_asked_with_what_is_rendered_and_no_more(engine: str, path: str) -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"Hi"}],"tools":[1],"chat_template_kwargs":{"a":1}}'
    assert adapter_for(engine).counting(CHAT) == Question(path, body)
    assert adapter_for(engine).counting(PROMPT) is None


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - {"vllm", "sglang"}))
def test_other_servers_are_not_asked(engine: str) -> None:
    assert adapter_for(engine).counting(CHAT) is None


@pytest.mark.parametrize(
    ("reply", "tokens"),
    [
        (Reply(200, {}, b'{"count":12,"max_model_len":4096,"tokens":[1,2]}'), 12),
        (Reply(200, {}, b'{"count":[12]}'), None),
        (Reply(200, {}, b"<html>"), None),
        (Reply(404, {}, b'{"count":12}'), None),
    ],
)
def test_a_reply_tells_the_count_or_nothing(reply: Reply, tokens: int | None) -> None:
    assert adapter_for("vllm").counted(reply) == tokens
