"""Whether two texts are the same but for what templates and harnesses change: thoughts, white space, spelling."""

from __future__ import annotations

import json
import re
from typing import Final

# How models mark a thought in plain text, where no parser took it out.
_MARKS: Final = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
)
_MARKED: Final = re.compile("|".join(f"{re.escape(begin)}(.*?){re.escape(end)}" for begin, end in _MARKS), re.DOTALL)
_MARK: Final = re.compile("|".join(re.escape(mark) for pair in _MARKS for mark in pair))
_JSON: Final = frozenset('{}[]":,')
_SPACE: Final = re.compile(r"\s+")
_ELLIPSIS: Final = re.compile(
    r"truncat|omitted|clipped|cut off|too long|more (?:lines|characters|tokens)|\.\.\.|…", re.I
)
_PYTHON: Final = {"True": "true", "False": "false", "None": "null", "'": '"'}
_SPELT: Final = re.compile("|".join(rf"\b{word}\b" if word.isalpha() else word for word in _PYTHON))
_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})")
_SHORTEST_CUT: Final = 16
"""Characters: what lost fewer was edited."""
_LONGEST_NOTE: Final = 120
"""Characters that a harness writes where it cut."""
_BEFORE: Final = 40
_AFTER: Final = 160
"""Characters that are shown before and after a difference."""


def without_thought(text: str) -> tuple[str, str]:
    """The text less the thoughts that are marked in it, and those.

    A thought whose opening mark stood in the prompt has the closing one alone.
    """
    if _MARK.search(text) is None:
        return text, ""
    thoughts = [next(filter(None, found.groups()), "") for found in _MARKED.finditer(text)]
    rest = _MARKED.sub("", text)
    for _, end in _MARKS[:-1]:
        before, mark, after = rest.partition(end)
        if mark:
            thoughts, rest = [before, *thoughts], after
    return (rest, "\n".join(thoughts)) if rest != text else (text, "")


def has_mark(text: str) -> bool:
    """Whether a thought begins or ends in it."""
    return _MARK.search(text) is not None


def same_but_space(one: str, other: str) -> bool:
    return _SPACE.sub("", one) == _SPACE.sub("", other)


def collapsed(text: str) -> str:
    """With every stretch of white space as one blank, and none at the ends."""
    return _SPACE.sub(" ", text).strip()


def same_json(one: str, other: str) -> bool:
    """Whether two JSON texts mean the same."""
    try:
        return bool(json.loads(one) == json.loads(other))
    except (ValueError, RecursionError):
        return False


def same_but_spelling(one: str, other: str) -> bool:
    """Whether two pieces of JSON may mean the same: white space, quotes, `False` for `false`, escapes."""
    return _spelt(one) == _spelt(other)


def has_json(text: str) -> bool:
    """Whether a mark of JSON's stands in it."""
    return not _JSON.isdisjoint(text)


def canonical(arguments: str) -> str:
    """The same for all spellings of one JSON value; other text as it is."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def as_printed(arguments: str) -> bool:
    """Whether JSON is spelled as templates print it, so that reading and printing it changes nothing."""
    try:
        value = json.loads(arguments)
        return arguments in (json.dumps(value), json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        return True  # Nothing reads it, so nothing prints it anew.


def cut_from(whole: str, part: str) -> bool:
    """Whether `part` is `whole` with a good piece left out, and at most a note in its place."""
    lost = len(whole) - len(part)
    if lost < _SHORTEST_CUT or not part:
        return False
    head = common_prefix(whole, part)
    tail = min(common_prefix(whole[::-1], part[::-1]), len(part) - head)
    note = part[head : len(part) - tail]
    if not note.strip():
        return head + tail >= min(len(part), _SHORTEST_CUT)
    return len(note) <= _LONGEST_NOTE and head + tail >= _SHORTEST_CUT and _ELLIPSIS.search(note) is not None


def common_prefix(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def around(one: str, other: str) -> tuple[str, str]:
    """Both texts from a little before they differ."""
    begin = max(0, common_prefix(one, other) - _BEFORE)
    return _window(one, begin), _window(other, begin)


def _window(text: str, begin: int) -> str:
    end = begin + _BEFORE + _AFTER
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"


def _spelt(text: str) -> str:
    plain = _SPELT.sub(lambda found: _PYTHON[found.group()], text)
    return _SPACE.sub("", _ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), plain)).replace('\\"', '"')
