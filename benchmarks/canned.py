"""The answers and questions of the benchmark, in the shape of vLLM 0.32: the same bytes for everyone."""

from __future__ import annotations

import json
import random
import struct
from typing import Final

MODEL: Final = "bench"
PROMPT_TOKENS: Final = 1000
SAMPLED_TOKENS: Final = 200
_WORDS: Final = ("the", "a", "file", "test", "then", "line", "error", "value", "run", "patch", "import", "class", "fix")
_HEAD: Final = {"id": "chatcmpl-9b8e2d417fdeef0e", "created": 1795253500, "model": MODEL}


def _sampled(tokens: int) -> list[tuple[int, str, float]]:
    """Ids, texts and logprobs of the one completion that all answers hold."""
    rng = random.Random(7)
    return [(rng.randrange(151_000), " " + rng.choice(_WORDS), _single(-rng.expovariate(3))) for _ in range(tokens)]


def _prompt() -> list[int]:
    rng = random.Random(11)
    return [rng.randrange(151_000) for _ in range(PROMPT_TOKENS)]


def _single(value: float) -> float:
    """Engines sample in float32, and print each value as the double that it is."""
    single: float = struct.unpack("f", struct.pack("f", value))[0]
    return single


def _logprob(text: str, logprob: float) -> dict[str, object]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}


def _usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": PROMPT_TOKENS, "total_tokens": PROMPT_TOKENS + tokens, "completion_tokens": tokens}


def whole_answer() -> bytes:
    """A whole chat completion with ids and logprobs."""
    sampled = _sampled(SAMPLED_TOKENS)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "".join(text for _, text, _ in sampled), "refusal": None},
        "logprobs": {"content": [_logprob(text, logprob) for _, text, logprob in sampled]},
        "finish_reason": "stop",
        "stop_reason": None,
        "token_ids": [token for token, _, _ in sampled],
    }
    answer = {**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _usage(SAMPLED_TOKENS)}
    return _json({**answer, "prompt_logprobs": None, "prompt_token_ids": _prompt()})


def streamed_answer(tokens: int = SAMPLED_TOKENS) -> bytes:
    """Such a completion as a stream: a chunk for the role, one for each token, one for usage, and `[DONE]`."""
    head = {**_HEAD, "object": "chat.completion.chunk"}

    def chunk(delta: dict[str, str], logprobs: object, finish_reason: str | None, **more: object) -> dict[str, object]:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason, **more}
        return {**head, "choices": [choice]}

    chunks: list[dict[str, object]] = [
        {**chunk({"role": "assistant", "content": ""}, None, None), "prompt_token_ids": _prompt()}
    ]
    sampled = _sampled(tokens)
    for number, (token, text, logprob) in enumerate(sampled):
        last = number == len(sampled) - 1
        entries = {"content": [_logprob(text, logprob)]}
        chunks.append(chunk({"content": text}, entries, "stop" if last else None, token_ids=[token]))
    chunks.append({**head, "choices": [], "usage": _usage(tokens)})
    return b"".join(b"data: " + _json(each) + b"\n\n" for each in chunks) + b"data: [DONE]\n\n"


def request(rng: random.Random, *, stream: bool) -> bytes:
    """A question of about as many words as the prompt has tokens, of which no two are alike."""
    words = " ".join(rng.choices(_WORDS, k=PROMPT_TOKENS - 100))
    messages = [{"role": "system", "content": "You fix programs."}, {"role": "user", "content": words}]
    return _json({"model": MODEL, "messages": messages, "temperature": 1.0, "max_tokens": 4096, "stream": stream})


def models() -> bytes:
    return _json({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "vllm"}]})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
