"""What a scripted model answers: functions from what is asked to what is said, without state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from adapters.scripts.asked import Asked
from adapters.scripts.speech import Speech, say, say_ids
from adapters.scripts.vocabulary import encode

Reply = Callable[[Asked], Sequence[Speech]]
"""One speech a choice; where there are fewer than choices, they are said again from the first."""

_ORDINALS: Final = ("first", "next", "other", "last")


def small_talk(asked: Asked) -> Sequence[Speech]:
    """A short text, another one for each choice."""
    return [say(f"Hello! This is the {ordinal} answer of a small model.") for ordinal in _ORDINALS]


def fixed(*speeches: Speech) -> Reply:
    """The same whatever is asked, one speech a choice."""
    return lambda asked: speeches


def by_turn(*speeches: Speech) -> Reply:
    """In a chat with k answers in its history the speech number k; past the end the last one."""

    def reply(asked: Asked) -> Sequence[Speech]:
        turn = sum(message.role == "assistant" for message in asked.messages)
        return [speeches[min(turn, len(speeches) - 1)]]

    return reply


def of_length(tokens: int) -> Reply:
    """So many tokens, for loads and for cutting at any place."""
    words = encode(" one two three four five six seven the answer is")
    ids = [words[at % len(words)] for at in range(tokens)]
    return fixed(say_ids(ids, finish="stop"))
