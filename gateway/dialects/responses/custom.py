"""A custom tool, whose input is text and no JSON, as a function of one string, which is what engines can offer."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

PARAMETERS: Final = Raw(
    b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}'
)


class _Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    input: str


_arguments: Final = msgspec.json.Decoder(_Arguments)


class _Grammar(Struct, frozen=True):
    type: str = "text"
    syntax: str = ""
    definition: str = ""


_grammar: Final = msgspec.json.Decoder(_Grammar)


def description_of(description: str | None, form: Raw) -> str | None:
    """With the grammar of its input in words: engines hold no argument of a function to one. Raises DecodeError."""
    grammar = _grammar.decode(form) if form != Raw(b"null") else _Grammar()
    if grammar.type != "grammar":
        return description
    words = f"The input has this {grammar.syntax} grammar:\n{grammar.definition}"
    return f"{description}\n\n{words}" if description else words


def arguments_of(text: str) -> str:
    """As models mostly write them, with a space after the colon: the next prompt is to have the same tokens."""
    return '{"input": ' + msgspec.json.encode(text).decode() + "}"


def input_of(arguments: str) -> str:
    """The text that a call's arguments hold; what is no such object is given as it came, not left out."""
    try:
        return _arguments.decode(arguments).input
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments
