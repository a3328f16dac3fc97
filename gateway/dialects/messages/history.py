"""System and messages of an Anthropic request as the messages of a chat. What has no counterpart is refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

import msgspec
from msgspec import Raw, Struct

from gateway.dialects.dialect import BadRequest
from gateway.dialects.messages import thought
from gateway.dialects.messages.body import (
    Base64Image,
    Block,
    Document,
    Image,
    Message,
    PlainText,
    RedactedThinking,
    SearchResult,
    Shown,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)

# One string rather than parts of a list: servers differ in what they put between parts.
_BETWEEN: Final = "\n"
_OF_ASSISTANT: Final = (Text, Thinking, RedactedThinking, ToolUse)
_OF_USER: Final = (Text, Image, Document, SearchResult, ToolResult)


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
    # vLLM since 0.16 reads the first alone, SGLang the second alone, and chat templates mostly the second.
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None


def chat_messages(system: str | Sequence[Text] | None, messages: Sequence[Message]) -> list[ChatMessage]:
    """Raises BadRequest that names what has no counterpart. Messages of one role in a row are one turn."""
    turns = [(message.role, _blocks(number, message)) for number, message in enumerate(messages)]
    head: list[Block] = [Text(system)] if isinstance(system, str) else [*(system or ())]
    while turns and turns[0][0] == "system":
        head += turns.pop(0)[1]
    prompt = _BETWEEN.join(block.text for block in head if isinstance(block, Text) and block.text)
    chat = [ChatMessage("system", prompt)] if prompt else []
    for assistants, turn in groupby(turns, key=lambda message: message[0] == "assistant"):
        if assistants:
            chat.append(_assistant([block for _, blocks in turn for block in blocks]))
        else:
            marked = (_marked(blocks) if role == "system" else blocks for role, blocks in turn)
            chat.extend(_user([block for blocks in marked for block in blocks]))
    return chat


def _marked(blocks: Iterable[Block]) -> Iterable[Block]:
    """What the system says in mid-conversation (Claude Code: at its start), as the user's words with a mark.

    Chat templates know a system prompt at the start alone: some refuse another (Qwen 3.5), some move it to the start
    (DeepSeek), where it would change the tokens of every prompt that was sampled after.
    """
    return [Text(f"<system>\n{block.text}\n</system>") for block in blocks if isinstance(block, Text)]


def _blocks(number: int, message: Message) -> Sequence[Block]:
    """The message's blocks, each of a kind that its role may have."""
    if isinstance(message.content, str):
        return [Text(message.content)]
    allowed = {"assistant": _OF_ASSISTANT, "user": _OF_USER, "system": (Text,)}[message.role]
    for at, block in enumerate(message.content):
        where = f"messages.{number}.content.{at}"
        if not isinstance(block, allowed):
            kind = block.__struct_config__.tag
            raise BadRequest(f"{where}: a message of the {message.role} has no `{kind}` block", param=where)
        if isinstance(block, ToolUse) and not bytes(block.input).startswith(b"{"):
            raise BadRequest(f"{where}.input: Input should be an object", param=f"{where}.input")
        if isinstance(block, RedactedThinking) and thought.recall(block.data) is None:
            raise BadRequest(
                f"{where}: a `redacted_thinking` block can be read by the server that made it alone", param=where
            )
    return message.content


def _assistant(blocks: Iterable[Block]) -> ChatMessage:
    """What the model said, put together as it was sampled: blocks of one kind are pieces of one text."""
    text: list[str] = []
    thoughts: list[str] = []
    calls: list[Call] = []
    for block in blocks:
        match block:
            case Text():
                text.append(block.text)
            case Thinking():
                thoughts.append(block.thinking or thought.recall(block.signature) or "")
            case RedactedThinking():
                thoughts.append(thought.recall(block.data) or "")
            case ToolUse():
                calls.append(Call(block.id, Function(block.name, bytes(block.input).decode())))
    said, reasoning = "".join(text), "".join(thoughts) or None
    # Null, where tools were called without a word, is what engines answer then, and templates look for it.
    content = None if calls and not said else said
    return ChatMessage("assistant", content, reasoning, reasoning, calls or None)


def _user(blocks: Sequence[Block]) -> Iterable[ChatMessage]:
    """The tools' results, which have messages of their own, then what the user says."""
    shown: list[Shown] = []
    for block in blocks:
        if isinstance(block, ToolResult):
            text, images = _result(block)
            # Most servers take no image from a tool, so it is the user who shows them.
            shown += images
            yield ChatMessage("tool", text, tool_call_id=block.tool_use_id)
    shown += [block for block in blocks if isinstance(block, Shown)]
    if shown or not blocks:
        parts = list(_parts(shown))
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        yield ChatMessage("user", _BETWEEN.join(texts) if len(texts) == len(parts) else parts)


def _result(result: ToolResult) -> tuple[str, list[Image]]:
    """The text of a tool's result, and the images."""
    if isinstance(result.content, str):
        text, images = result.content, []
    else:
        parts = list(_unfolded(result.content or ()))
        text = _BETWEEN.join(part.text for part in parts if isinstance(part, Text))
        images = [part for part in parts if isinstance(part, Image)]
    # A chat has no such mark, and without it the model would take a failure for a result.
    if result.is_error and not text.lower().startswith("error"):
        text = f"Error: {text}"
    return text, images


def _parts(shown: Iterable[Shown]) -> Iterable[Part]:
    for block in _unfolded(shown):
        yield TextPart(block.text) if isinstance(block, Text) else ImagePart(ImageUrl(_url(block)))


def _unfolded(shown: Iterable[Shown]) -> Iterable[Text | Image]:
    """Documents and search results as the texts and images that they are made of."""
    for block in shown:
        match block:
            case Document(source=source):
                yield from (Text(head) for head in (block.title, block.context) if head)
                if isinstance(source, PlainText):
                    yield Text(source.data)
                elif isinstance(source.content, str):
                    yield Text(source.content)
                else:
                    yield from source.content
            case SearchResult():
                yield Text(f"{block.title} ({block.source})")
                yield from block.content
            case _:
                yield block


def _url(image: Image) -> str:
    source = image.source
    return f"data:{source.media_type};base64,{source.data}" if isinstance(source, Base64Image) else source.url


def encoded(messages: Sequence[ChatMessage]) -> Raw:
    return Raw(msgspec.json.encode(messages))
