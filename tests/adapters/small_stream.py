"""A stream of two tokens, chunk by chunk, and the reading of whatever is made of it."""

from __future__ import annotations

import json
from typing import Any

from adapters.answer import Outcome, Piece
from adapters.engines import adapter_for
from adapters.plan import Plan
from tests.adapters.cases import planned, streamed

HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "stream": True}
USAGE = {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}
ROLE = {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant"}}], "prompt_token_ids": [1, 2]}
FIRST = {"id": "c", "choices": [{"index": 0, "delta": {"content": "a"}, "token_ids": [7], "finish_reason": None}]}
LAST = {"id": "c", "choices": [{"index": 0, "delta": {}, "token_ids": [8], "finish_reason": "stop"}]}
COUNTED = {"id": "c", "choices": [], "usage": USAGE}


def plan_for(engine: str = "vllm", version: str | None = "0.33.0", **body: Any) -> Plan:
    return planned({**HELLO, **body}, adapter_for(engine).server(version))[0]


def sse(*chunks: Any) -> bytes:
    """Dicts are chunks; bytes stand as they are."""
    return b"".join(
        chunk if isinstance(chunk, bytes) else b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks
    )


def read(*chunks: Any, plan: Plan | None = None, cut: bool = False) -> tuple[list[Piece], Outcome]:
    return streamed(plan or plan_for(), sse(*chunks), cut=cut)
