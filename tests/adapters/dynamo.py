"""Dynamo's workers, and answers of it made by hand, for the tests of its adapter."""

from __future__ import annotations

import json
from typing import Any

from adapters.answer import AnswerReader, Outcome
from adapters.engines import adapter_for
from adapters.plan import Plan
from tests.adapters.cases import streamed

DYNAMO = adapter_for("dynamo")
SCRIPTED = "dynamo-1.6.1-scripted"
MOCKER = "dynamo-1.6.1-mocker-sglang"
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
ONCE: dict[str, Any] = {"model": "m", "prompt": "Once upon"}
BOTH = ["completion_token_ids", "prompt_token_ids"]
ALL = ["completion_token_ids", "engine_data", "prompt_token_ids"]
VLLM_WORKER = DYNAMO.server(variant="vllm")
SGLANG_WORKER = DYNAMO.server(variant="sglang")
UNKNOWN_WORKER = DYNAMO.server()
TAKES_ONE = DYNAMO.server(variant="sglang", features={"completion_logprobs"})


def outcome_of(plan: Plan, body: bytes, *, is_stream: bool) -> Outcome:
    return streamed(plan, body)[1] if is_stream else AnswerReader(plan).whole(body)


def stream(*chunks: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def part(index: int, text: str, finish: str | None = None, **nvext: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": {"content": text}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice], **({"nvext": nvext} if nvext else {})}


def counted(prompt: int, completion: int) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": usage}


def entry(token: int, logprob: float) -> dict[str, Any]:
    return {"token": "t", "token_id": token, "logprob": logprob, "bytes": None, "top_logprobs": []}


def whole(*choices: list[dict[str, Any]], nvext: dict[str, Any], completion_tokens: int) -> bytes:
    listed = [
        {
            "index": index,
            "message": {"role": "assistant", "content": "x"},
            "finish_reason": "stop",
            "logprobs": {"content": entries},
        }
        for index, entries in enumerate(choices)
    ]
    usage = {"prompt_tokens": 2, "completion_tokens": completion_tokens}
    return json.dumps({"id": "c", "choices": listed, "usage": usage, "nvext": nvext}).encode()
