"""Tokens that say whose they are: from an id, or from the text of an answer, the call that it was sampled for.

Every call of a run has a number. A prompt has one token for each message of its user, and the sampled tokens of each
answer in it: so a session is one token sequence, and a token that got into another's is seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from adapters.scripts.speech import Speech, Token

PER_CALL: Final = 4096
"""Ids of one call: the first is its question's, the others are sampled. 500,000 calls fit into int32."""
_WORD: Final = re.compile(r"([0-9a-f]+)\.([0-9a-f]+) ")


def asked_id(number: int) -> int:
    return number * PER_CALL


def sampled_ids(number: int, tokens: int) -> tuple[int, ...]:
    if not 0 < tokens < PER_CALL:
        raise ValueError(f"an answer has 1 to {PER_CALL - 1} tokens, not {tokens}")
    return tuple(range(number * PER_CALL + 1, number * PER_CALL + 1 + tokens))


def owner(token_id: int) -> int:
    """The number of the call that the token belongs to."""
    return token_id // PER_CALL


def word(token_id: int) -> str:
    return f"{owner(token_id):x}.{token_id % PER_CALL:x} "


def ids_in(text: str) -> tuple[int, ...]:
    """The ids of the words of a text, whoever said them."""
    return tuple(int(number, 16) * PER_CALL + int(at, 16) for number, at in _WORD.findall(text))


def logprobs(emission: int, tokens: int) -> tuple[float, ...]:
    """Of one emission alone: what a call was told at its second try is not what it was told at its first."""
    return tuple(-((emission * 4099 + at) % 1_000_003 + 1) / 100_003 for at in range(tokens))


def answer(number: int, tokens: int, emission: int, *, padding: int = 0) -> Speech:
    """What is said to a call, with so many characters more a token, which mean nothing."""
    pairs = zip(sampled_ids(number, tokens), logprobs(emission, tokens), strict=True)
    more = "~" * padding
    return Speech(tuple(Token(token_id, word(token_id) + more, logprob, "content") for token_id, logprob in pairs))


def prompt(messages: Iterable[tuple[str, str]]) -> tuple[int, ...]:
    """Ids of a chat of `(role, text)`: an agent asks by the number of its call. What asks otherwise is number 0."""
    ids: list[int] = []
    for role, text in messages:
        ids += ids_in(text) if role == "assistant" else [asked_id(int(text) if text.isdecimal() else 0)]
    return tuple(ids)
