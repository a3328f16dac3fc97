"""What is wrong with the settings, in sentences for the person who wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

from pydantic_core import ErrorDetails


class SettingsError(ValueError):
    """The settings can't be used; the message says which one, where it stands and what would do."""


def unknown(spelled: str, key: str, known: Iterable[str], spell: Callable[[str], str] = str) -> str:
    """The sentence for a key that does not exist. `spell` writes another key as its source would."""
    names = sorted(known)
    near = get_close_matches(key, names, n=1, cutoff=0.5)
    if near:
        return f"{spelled} is unknown: did you mean {spell(near[0])}?"
    return f"{spelled} is unknown; known are {', '.join(map(spell, names)) or 'none'}"


def sentence(error: ErrorDetails) -> str:
    """What is wrong with one value, in the words of the rule that it breaks."""
    return error["msg"].removeprefix("Value error, ")
