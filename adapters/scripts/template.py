"""The chat template of the scripted servers: messages to prompt ids, each turn's extending the last one's.

An assistant's turn in the history is written as it was when it was sampled, so a session of unedited
messages is one token sequence, as it mostly is with real templates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import msgspec

from adapters.scripts.vocabulary import CALL, CALL_END, END, THINK, THINK_END, TURN, encode

_AFTER_TURN: Final = encode("\n")


class Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str = "{}"


class CalledTool(msgspec.Struct, frozen=True):
    function: Function
    id: str | None = None


class ContentPart(msgspec.Struct, frozen=True):
    type: str = "text"
    text: str = ""


class Message(msgspec.Struct, frozen=True):
    """One message of a request, with the fields that the template writes; the others are ignored."""

    role: str
    content: str | tuple[ContentPart, ...] | None = None
    tool_calls: tuple[CalledTool, ...] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, tuple):
            return "".join(part.text for part in self.content)
        return self.content or ""


def thought_ids(reasoning: str) -> tuple[int, ...]:
    return (THINK, *encode(reasoning), THINK_END) if reasoning else ()


def call_head_ids(name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A call up to its arguments, in two: the second part's first token is the one that ends the name."""
    return (CALL, *encode(f'\n{{"name": "{name}')), encode('", "arguments": ')


def call_tail_ids() -> tuple[int, ...]:
    return (*encode("}\n"), CALL_END)


def prompt_ids(messages: Iterable[Message], tools: Sequence[msgspec.Raw] = ()) -> tuple[int, ...]:
    """The ids of a chat up to where the assistant is to speak."""
    written: list[int] = []
    if tools:
        written += _turn("system", encode("tools: " + ", ".join(bytes(tool).decode() for tool in tools)))
    for message in messages:
        written += _turn(message.role, _body(message))
    return (*written, TURN, *encode("assistant\n"))


def _turn(role: str, body: Sequence[int]) -> tuple[int, ...]:
    return (TURN, *encode(f"{role}\n"), *body, END, *_AFTER_TURN)


def _body(message: Message) -> tuple[int, ...]:
    written = [*thought_ids(message.reasoning or message.reasoning_content or ""), *encode(message.text)]
    for call in message.tool_calls or ():
        written += [*chain(*call_head_ids(call.function.name)), *encode(call.function.arguments), *call_tail_ids()]
    return tuple(written)
