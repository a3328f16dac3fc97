"""What a Responses request may hold, typed: each kind of item that has a translation, and no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

from gateway.dialects.dialect import BadRequest
from gateway.dialects.typed_fields import read


class InputText(Struct, frozen=True, tag="input_text"):
    text: str


class InputImage(Struct, frozen=True, tag="input_image"):
    image_url: str | None = None


class OutputText(Struct, frozen=True, tag="output_text"):
    text: str


class Refusal(Struct, frozen=True, tag="refusal"):
    refusal: str


class Message(Struct, frozen=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[InputText | InputImage | OutputText | Refusal]


class SummaryText(Struct, frozen=True, tag="summary_text"):
    text: str


class ReasoningText(Struct, frozen=True, tag="reasoning_text"):
    text: str


class Reasoning(Struct, frozen=True):
    summary: list[SummaryText] | None = None
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None


class FunctionCall(Struct, frozen=True):
    call_id: str
    name: str
    arguments: str
    namespace: str | None = None


class CustomToolCall(Struct, frozen=True):
    call_id: str
    name: str
    input: str
    namespace: str | None = None


class ToolOutput(Struct, frozen=True):
    """Of a function or of a custom tool."""

    call_id: str
    output: str | list[InputText | InputImage]


class ItemReference(Struct, frozen=True):
    id: str


Item = Message | Reasoning | FunctionCall | CustomToolCall | ToolOutput | ItemReference


class _Head(Struct, frozen=True):
    type: str | None = None
    role: str | None = None


_KINDS: Final[Mapping[str, msgspec.json.Decoder[Item]]] = {
    "message": msgspec.json.Decoder(Message),
    "reasoning": msgspec.json.Decoder(Reasoning),
    "function_call": msgspec.json.Decoder(FunctionCall),
    "function_call_output": msgspec.json.Decoder(ToolOutput),
    "custom_tool_call": msgspec.json.Decoder(CustomToolCall),
    "custom_tool_call_output": msgspec.json.Decoder(ToolOutput),
    "item_reference": msgspec.json.Decoder(ItemReference),
}
_head: Final = msgspec.json.Decoder(_Head)
_input: Final = msgspec.json.Decoder(str | list[Raw])


def items(raw: Raw | None) -> list[Item]:
    """The items of an `input`, a string being what the user says. Raises BadRequest that names the place."""
    given = read(raw, "input", _input)
    if isinstance(given, str):
        return [Message("user", given)]
    return [_item(item, f"input[{at}]") for at, item in enumerate(given or ())]


def _item(raw: Raw, where: str) -> Item:
    head = read(raw, where, _head)
    if head is None:
        raise BadRequest(f"{where}: an item is an object, not null", param=where)
    # Both may be left out: a message has a role, and what has neither is a reference.
    kind = head.type or ("message" if head.role is not None else "item_reference")
    decoder = _KINDS.get(kind)
    if decoder is None:
        message = f"{where}.type: `{kind}` cannot be translated for the backends of this gateway"
        raise BadRequest(message, param=f"{where}.type")
    item = read(raw, where, decoder)
    assert item is not None
    return item


class Tool(Struct, frozen=True):
    type: str
    name: str | None = None
    description: str | None = None
    parameters: Raw = Raw(b"null")
    strict: bool | None = None
    format: Raw = Raw(b"null")
    tools: Raw = Raw(b"null")
    """Those of a namespace."""


class ToolChoice(Struct, frozen=True):
    type: str
    name: str | None = None
    mode: Literal["auto", "required"] = "auto"
    tools: list[Tool] | None = None


class ReasoningConfig(Struct, frozen=True):
    effort: str | None = None


class TextFormat(Struct, frozen=True, omit_defaults=True):
    type: Literal["text", "json_object", "json_schema"] = "text"
    name: str = "output"
    schema: Raw = Raw(b"null")
    description: str | None = None
    strict: bool | None = None


class TextConfig(Struct, frozen=True):
    format: TextFormat | None = None
