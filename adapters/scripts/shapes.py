"""The pieces of an OpenAI-shaped answer that every engine has in one form or another."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.scripts.asked import Asked
from adapters.scripts.script import Json
from adapters.scripts.speech import Speech, Token, read_back
from adapters.scripts.vocabulary import SIZE, piece


def counts(asked: Asked, speeches: Sequence[Speech]) -> tuple[int, int]:
    """Prompt and completion tokens of a call: each prompt once, however many choices it has."""
    return sum(map(len, asked.prompts)), sum(len(speech.tokens) for speech in speeches)


def thought_tokens(speeches: Sequence[Speech]) -> int:
    return sum(token.part == "reasoning" for speech in speeches for token in speech.tokens)


def written(token_id: int) -> str:
    """A token as logprobs name it: a special one by its name, a fragment of a character as nothing."""
    return piece(token_id % SIZE).decode(errors="ignore")


def alternatives(token: Token, count: int) -> list[tuple[str, float]]:
    """The sampled token and its made-up neighbours, likeliest first."""
    likeliest = token.logprob if token.logprob is not None else 0.0
    return [(written(token.id + at * 17), likeliest - at) for at in range(count)]


def echoed(asked: Asked, index: int) -> tuple[Token, ...]:
    """What stands before a choice: its prompt's tokens, where they are to be echoed."""
    return read_back(asked.prompt_of(index)) if asked.echo else ()


def completion_logprobs(tokens: Sequence[Token], top: int, offsets: Sequence[int]) -> Json:
    """The legacy completions shape: parallel lists."""
    return {
        "text_offset": list(offsets),
        "token_logprobs": [token.logprob for token in tokens],
        "tokens": [written(token.id) for token in tokens],
        "top_logprobs": [dict(alternatives(token, top)) for token in tokens] if top else None,
    }


def joined(tokens: Sequence[Token], part: str) -> str:
    return "".join(token.text for token in tokens if token.part == part)
