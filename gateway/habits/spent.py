"""The answer to a call that its session has no budget left for: a proper end, that a loop of tools stops at.

Agents take an answer without a tool call that ended by itself for their end. One that was cut by a limit they try to
go on from (Claude Code 2.1 asks its model to resume, and OpenAI's `parse` raises), and many take an error for a crash.
"""

from __future__ import annotations

import time

import msgspec
from msgspec import Raw

from adapters.answer import Outcome
from adapters.request import CanonicalRequest
from adapters.schema import Choice, Completion, Usage, Verdict

_NOTHING_SAMPLED = "the model was not asked"


def last_answer(request: CanonicalRequest, sentence: str, answer_id: str) -> Outcome:
    """As many choices as were asked for, each with the sentence, and a usage of nothing."""
    indices = range(request.expected_choices)
    completion = Completion(
        choices=tuple(Choice(index, text=sentence, finish_reason="stop") for index in indices),
        served_model=request.model,
        usage=Usage(prompt_tokens=0, completion_tokens=0, total_tokens=0),
    )
    chat = request.endpoint == "chat"
    body = {
        "id": answer_id,
        "object": "chat.completion" if chat else "text_completion",
        "created": int(time.time()),
        "model": request.model,
        "choices": [
            {
                "index": index,
                **({"message": _message(request, sentence)} if chat else {"text": sentence}),
                "logprobs": None,
                "finish_reason": "stop",
            }
            for index in indices
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }
    verdict = Verdict("none", _NOTHING_SAMPLED, "none", _NOTHING_SAMPLED)
    return Outcome(completion, verdict, msgspec.json.encode(body), finished=True)


def _message(request: CanonicalRequest, sentence: str) -> dict[str, str | None]:
    """Who asked for JSON gets a refusal: OpenAI's SDK hands that on, and would fail to parse a sentence."""
    if request.fields.get("response_format", Raw(b"null")) != Raw(b"null"):
        return {"role": "assistant", "content": None, "refusal": sentence}
    return {"role": "assistant", "content": sentence}
