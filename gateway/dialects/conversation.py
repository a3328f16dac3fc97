"""A conversation as a chat has it, made of turns that every dialect can tell: whose, and what was said, kind by kind.

What an assistant said is put together as it was sampled; what a user says is one text where it is text alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

Role = Literal["system", "user", "assistant"]

# One string rather than parts of a list: servers differ in what they put between parts.
BETWEEN: Final = "\n"


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Image:
    url: str


@dataclass(frozen=True, slots=True)
class Thought:
    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """A tool that the assistant called; its arguments' JSON text as it came."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool answered."""

    call_id: str
    shown: Sequence[Text | Image]


Block = Text | Image | Thought | Called | Result


@dataclass(frozen=True, slots=True)
class Turn:
    role: Role
    blocks: Sequence[Block]


class ImageUrl(Struct, frozen=True):
    url: str


class ImagePart(Struct, frozen=True, tag="image_url"):
    image_url: ImageUrl


class TextPart(Struct, frozen=True, tag="text"):
    text: str


Part = TextPart | ImagePart


class Function(Struct, frozen=True):
    name: str
    arguments: str


class Call(Struct, frozen=True, tag="function"):
    id: str
    function: Function


class ChatMessage(Struct, frozen=True, omit_defaults=True):
    role: str
    content: str | list[Part] | None
    # Where most templates look for it. Some engines refuse `reasoning` beside it as the same field twice; the adapter
    # of one that reads that instead adds it, for a request that says that it was `translated`.
    reasoning_content: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None


def chat_messages(turns: Iterable[Turn]) -> list[ChatMessage]:
    """What the system says at the start is one message; turns of one side in a row are one turn."""
    left = list(turns)
    head: list[Block] = []
    while left and left[0].role == "system":
        head += left.pop(0).blocks
    prompt = BETWEEN.join(block.text for block in head if isinstance(block, Text) and block.text)
    chat = [ChatMessage("system", prompt)] if prompt else []
    for assistants, side in groupby(left, key=lambda turn: turn.role == "assistant"):
        if assistants:
            chat.append(_assistant([block for turn in side for block in turn.blocks]))
        else:
            marked = (_marked(turn.blocks) if turn.role == "system" else turn.blocks for turn in side)
            chat.extend(_user([block for blocks in marked for block in blocks]))
    return chat


def _marked(blocks: Iterable[Block]) -> Iterable[Block]:
    """What the system says in mid-conversation (Claude Code: at its start), as the user's words with a mark.

    Chat templates know a system prompt at the start alone: some refuse another (Qwen 3.5), some move it to the start
    (DeepSeek), where it would change the tokens of every prompt that was sampled after.
    """
    return [Text(f"<system>\n{block.text}\n</system>") for block in blocks if isinstance(block, Text)]


def _assistant(blocks: Iterable[Block]) -> ChatMessage:
    """What the model said, put together as it was sampled: blocks of one kind are pieces of one text."""
    text: list[str] = []
    thoughts: list[str] = []
    calls: list[Call] = []
    for block in blocks:
        match block:
            case Text():
                text.append(block.text)
            case Thought():
                thoughts.append(block.text)
            case Called():
                calls.append(Call(block.id, Function(block.name, block.arguments)))
    said, reasoning = "".join(text), "".join(thoughts) or None
    # Null, where tools were called without a word, is what engines answer then, and templates look for it. Parsers of
    # some engines leave a line end between two calls in the text: templates write their own there, and one more beside
    # any text.
    content = None if calls and not said.strip() else said
    return ChatMessage("assistant", content, reasoning, calls or None)


def _user(blocks: Sequence[Block]) -> Iterable[ChatMessage]:
    """The tools' results, which have messages of their own, then what the user says."""
    shown: list[Block] = []
    for block in blocks:
        if isinstance(block, Result):
            # Most servers take no image from a tool, so it is the user who shows them.
            shown += [part for part in block.shown if isinstance(part, Image)]
            yield ChatMessage("tool", _joined(block.shown), tool_call_id=block.call_id)
    shown += [block for block in blocks if isinstance(block, Text | Image)]
    if shown or not blocks:
        parts = list(_parts(shown))
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        yield ChatMessage("user", BETWEEN.join(texts) if len(texts) == len(parts) else parts)


def _joined(blocks: Iterable[Block]) -> str:
    return BETWEEN.join(block.text for block in blocks if isinstance(block, Text))


def _parts(shown: Iterable[Block]) -> Iterable[Part]:
    for block in shown:
        match block:
            case Text():
                yield TextPart(block.text)
            case Image():
                yield ImagePart(ImageUrl(block.url))


def encoded(messages: Sequence[ChatMessage]) -> Raw:
    return Raw(msgspec.json.encode(messages))
