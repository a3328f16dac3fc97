"""System and messages of an Anthropic request as the turns of a conversation. What has no counterpart is refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gateway.dialects import conversation, thought
from gateway.dialects.conversation import BETWEEN, Called, Result, Thought, Turn
from gateway.dialects.dialect import BadRequest
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

_OF_ASSISTANT: Final = (Text, Thinking, RedactedThinking, ToolUse)
_OF_USER: Final = (Text, Image, Document, SearchResult, ToolResult)


def turns(system: str | Sequence[Text] | None, messages: Sequence[Message]) -> Iterable[Turn]:
    """Raises BadRequest that names what has no counterpart."""
    said = [Text(system)] if isinstance(system, str) else system or ()
    yield Turn("system", [conversation.Text(block.text) for block in said])
    for number, message in enumerate(messages):
        yield Turn(message.role, [told for block in _blocks(number, message) for told in _told(block)])


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


def _told(block: Block) -> Iterable[conversation.Block]:
    match block:
        case Thinking():
            yield Thought(block.thinking or thought.recall(block.signature) or "")
        case RedactedThinking():
            yield Thought(thought.recall(block.data) or "")
        case ToolUse():
            yield Called(block.id, block.name, _arguments(block.input))
        case ToolResult():
            yield Result(block.tool_use_id, _result(block))
        case _:
            yield from _shown(block)


def _arguments(given: msgspec.Raw) -> str:
    """As they stand in the request. Where its whole body is indented for a reader they are put on one line.

    `@anthropic-ai/sdk` 0.36 sends such bodies, and by it Qwen Code 0.15.10: no model writes its calls like that.
    """
    json = bytes(given)
    try:
        return (msgspec.json.format(json, indent=0) if b"\n" in json else json).decode()
    except RecursionError:  # As deep as the body may just be.
        return json.decode()


def _result(result: ToolResult) -> Sequence[conversation.Text | conversation.Image]:
    content = [Text(result.content)] if isinstance(result.content, str) else result.content or ()
    parts = [part for block in content for part in _shown(block)]
    if not result.is_error:
        return parts
    # A chat has no such mark, and without it the model would take a failure for a result.
    text = BETWEEN.join(part.text for part in parts if isinstance(part, conversation.Text))
    told = text if text.lower().startswith("error") else f"Error: {text}"
    return [conversation.Text(told), *(part for part in parts if isinstance(part, conversation.Image))]


def _shown(block: Shown) -> Iterable[conversation.Text | conversation.Image]:
    """Documents and search results as the texts and images that they are made of."""
    match block:
        case Text():
            yield conversation.Text(block.text)
        case Image():
            yield conversation.Image(_url(block))
        case SearchResult():
            yield conversation.Text(f"{block.title} ({block.source})")
            yield from (conversation.Text(part.text) for part in block.content)
        case Document(source=source):
            yield from (conversation.Text(head) for head in (block.title, block.context) if head)
            if isinstance(source, PlainText):
                yield conversation.Text(source.data)
            else:
                content = [Text(source.content)] if isinstance(source.content, str) else source.content
                for part in content:
                    yield from _shown(part)


def _url(image: Image) -> str:
    source = image.source
    return f"data:{source.media_type};base64,{source.data}" if isinstance(source, Base64Image) else source.url
