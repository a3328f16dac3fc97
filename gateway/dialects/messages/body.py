"""What an Anthropic request may hold, typed: each kind of block that has a translation, and no other."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from gateway.dialects import typed_fields

T = TypeVar("T")

_ITEM: Final = re.compile(r"\[([^]]*)]")


class Text(Struct, frozen=True, tag="text"):
    text: str


class Base64Image(Struct, frozen=True, tag="base64"):
    media_type: str
    data: str


class UrlImage(Struct, frozen=True, tag="url"):
    url: str


class Image(Struct, frozen=True, tag="image"):
    source: Base64Image | UrlImage


class PlainText(Struct, frozen=True, tag="text"):
    data: str


class Contents(Struct, frozen=True, tag="content"):
    content: str | list[Text | Image]


class Document(Struct, frozen=True, tag="document"):
    source: PlainText | Contents
    title: str | None = None
    context: str | None = None


class SearchResult(Struct, frozen=True, tag="search_result"):
    title: str
    source: str
    content: list[Text]


class Thinking(Struct, frozen=True, tag="thinking"):
    thinking: str
    signature: str = ""


class RedactedThinking(Struct, frozen=True, tag="redacted_thinking"):
    data: str


class ToolUse(Struct, frozen=True, tag="tool_use"):
    id: str
    name: str
    input: Raw


class ToolResult(Struct, frozen=True, tag="tool_result"):
    tool_use_id: str
    content: str | list[Text | Image | Document | SearchResult] | None = None
    is_error: bool | None = None


Shown = Text | Image | Document | SearchResult
"""What a user shows the model, and what a tool may."""
Block = Shown | Thinking | RedactedThinking | ToolUse | ToolResult


class Message(Struct, frozen=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class Tool(Struct, frozen=True):
    name: str
    type: str | None = None
    description: str | None = None
    input_schema: Raw = Raw(b"null")
    strict: bool | None = None


class ToolChoice(Struct, frozen=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingConfig(Struct, frozen=True):
    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(Struct, frozen=True):
    type: Literal["json_schema"]
    schema: Raw


class OutputConfig(Struct, frozen=True):
    format: OutputFormat | None = None


def read(raw: Raw | None, name: str, decoder: msgspec.json.Decoder[T]) -> T | None:
    """A root field; a place in it as Anthropic writes one (`messages.0.content`). Raises BadRequest that names it."""
    return typed_fields.read(raw, name, decoder, lambda path: _ITEM.sub(r".\1", path))
