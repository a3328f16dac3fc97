"""What the matrix calls wrong: it is worth as much as what it notices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engines import tokens, views
from tests.engines.agent import Seen, documents_of
from tests.engines.cases import Case
from tests.engines.folding import fold
from tests.engines.truth import Sampled

CASE = Case("plain", "chat", {}, lambda answer: True)
TRUTH = (Sampled((1, 2), (5, 6), (-0.5, -0.25)),)
USAGE = {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}


class Letters:
    """A tokenizer whose id 5 is «a», 6 «b» and so on."""

    def decode(self, ids: Any, /, *, skip_special_tokens: bool = True) -> str:
        return "".join(chr(ord("a") + token_id - 5) for token_id in ids)


def whole(text: str, **root: Any) -> Seen:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return seen(json.dumps({"id": "x", "choices": [choice], "usage": USAGE, **root}).encode(), "application/json")


def stream(*deltas: dict[str, Any], finish: str = "stop", usage: bool = True) -> Seen:
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage:
        chunks.append({"choices": [], "usage": USAGE})
    events = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    return seen(events + b"data: [DONE]\n\n", "text/event-stream")


def seen(body: bytes, media_type: str) -> Seen:
    documents = tuple(documents_of(body))
    return Seen(200, {"content-type": media_type}, body, documents, documents)


def different(direct: Seen, through: Seen, plan: str, of: Seen | None = None) -> list[str]:
    return list(views.differences(views.Views({}, direct, through, of or whole("ab")), plan, sampled=False))


def trace(**changes: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "token_ids": [5, 6],
        "logprobs": [-0.5, -0.25],
        "prompt_token_ids": None,
        "stop_reason": None,
    }
    told = {"fidelity": "exact", "prompt_token_ids": [1, 2], "usage": USAGE, "choices": [choice]}
    return {**told, **changes.pop("root", {}), "choices": [{**choice, **changes}]}


def wrong(of: dict[str, Any], text: str = "ab") -> list[str]:
    return list(tokens.differences(of, CASE, TRUTH, fold([*whole(text).documents]), Letters()))


def test_a_stream_folds_into_what_a_whole_answer_says() -> None:
    assert fold(stream({"role": "assistant"}, {"content": "a"}, {"content": "b"}).documents) == fold(
        whole("ab").documents
    )


def test_the_same_answer_is_no_difference() -> None:
    assert different(whole("ab"), whole("ab", id="y"), "whole") == []
    assert different(whole("ab", token_ids=None), whole("ab"), "whole") == []
    assert different(whole("ab", usage={**USAGE, "prompt_tokens_details": None}), whole("ab"), "whole") == []
    assert different(stream({"content": "ab"}), stream({"content": "a"}, {"content": "b"}), "streamed") == []
    assert different(stream({"content": "b"}), stream({"role": "assistant"}, {"content": "ab"}), "buffered") == []


@pytest.mark.parametrize(
    ("direct", "through", "plan"),
    [
        (whole("ab"), whole("a"), "whole"),
        (whole("ab"), whole("ab", token_ids=[5, 6]), "whole"),
        (whole("ab", metadata={"version": "1"}), whole("ab"), "whole"),
        (stream({"content": "ab"}), stream({"content": "a"}), "streamed"),
        (stream({"content": "ab"}), stream({"content": "ab"}, finish="length"), "streamed"),
        (stream({"content": "ab"}), stream({"content": "ab", "token_ids": [5]}), "streamed"),
        (stream({"content": "ab"}, usage=False), stream({"content": "ab"}), "streamed"),
        (stream({"content": "ab"}), whole("ab"), "streamed"),
        (stream({"content": "ab"}), stream({"content": "a"}), "buffered"),
        (stream({"content": "ab"}), stream({"content": "ab", "response_token_ids": [5]}), "buffered"),
    ],
)
def test_what_an_agent_would_notice_is_found(direct: Seen, through: Seen, plan: str) -> None:
    assert different(direct, through, plan)


def test_a_trace_of_what_was_sampled_is_right() -> None:
    assert wrong(trace()) == []
    assert wrong(trace(root={"fidelity": "none", "prompt_token_ids": None}, token_ids=None, logprobs=None)) == []


@pytest.mark.parametrize(
    "changed",
    [
        trace(token_ids=[5, 7]),
        trace(token_ids=[5], logprobs=[-0.5]),
        trace(logprobs=[-0.5, -0.3]),
        trace(logprobs=[-0.5]),
        trace(root={"prompt_token_ids": [1, 3]}),
        trace(root={"prompt_token_ids": None}),
        trace(root={"usage": {**USAGE, "completion_tokens": 3}}),
        trace(root={"usage": {**USAGE, "prompt_tokens": 3}}),
    ],
)
def test_a_trace_of_anything_else_is_wrong(changed: dict[str, Any]) -> None:
    assert wrong(changed)


def test_ids_that_do_not_say_what_the_agent_read_are_wrong() -> None:
    assert wrong(trace(), text="ba")
    assert wrong(trace(), text="a")
