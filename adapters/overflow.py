"""A context that is too short for a call, as engines say it: how long the prompt is, the answer asked for, the limit.

Agents act on it (they summarise, or ask for less), each API in its own words, so each dialect has to say it in those.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from adapters.schema import Error

# `…` is anything. From vLLM 0.10 to 0.33 and OpenAI; SGLang 0.5.9 to 0.5.23; llama.cpp; the gateway's own words.
_SENTENCES: Final = (
    "context length is {limit} tokens. However, your prompt contains {prompt} input tokens",
    "context length is {limit} tokens. However, you requested {answer} output tokens and your prompt contains {prompt}",
    "context length is {limit} tokens. However, you requested {total} tokens ({prompt} in the … {answer} in the compl",
    "context length is {limit} tokens. However, your … resulted in {prompt} tokens",
    "is too large: {answer}. … context length is {limit} tokens and your request has {prompt} input tokens",
    "You passed {prompt} input tokens and requested {answer} output tokens. … context length is only {limit} tokens",
    "The input ({prompt} tokens) is longer than the model's context length ({limit} tokens)",
    "context length of {limit} tokens. You requested a total of {total} tokens: {prompt} tokens from … and {answer} ",
    "request ({prompt} tokens) exceeds the available context size ({limit} tokens)",
    "prompt is too long: {prompt} tokens > {limit} maximum",
)
_WITHOUT_NUMBERS: Final = re.compile(
    r"(?i)maximum context length|model's context length|exceeds? the available context|longer than the maximum model"
    r"|context_length_exceeded|exceed_context_size|prompt is too long"
)


def _pattern(sentence: str) -> re.Pattern[str]:
    escaped = re.escape(sentence).replace("…", ".*?")
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?:at least )?(?P<\1>\\d+)", escaped), re.IGNORECASE | re.DOTALL)


_PATTERNS: Final = tuple(map(_pattern, _SENTENCES))


@dataclass(frozen=True, slots=True)
class Overflow:
    """Tokens; null where the engine does not say."""

    prompt: int | None = None
    answer: int | None = None
    limit: int | None = None

    @property
    def by_answer(self) -> bool:
        """Whether the prompt itself fits, and a shorter answer would."""
        return self.answer is not None and (self.prompt or 0) < (self.limit or 0)


def overflow_of(error: Error) -> Overflow | None:
    """What an error says of a context that is too short; None for any other error."""
    for pattern in _PATTERNS:
        if (found := pattern.search(error.message)) is not None:
            told = {name: int(number) for name, number in found.groupdict().items()}
            return Overflow(told["prompt"], told.get("answer"), told["limit"])
    words = f"{error.message} {error.code or ''} {error.type or ''}"
    return Overflow() if _WITHOUT_NUMBERS.search(words) else None
