"""A chat as chat templates expect it: from the request that an agent sent, and the reply that a server gave."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from adapters.raw import NotJSON, decode, open_object, told
from adapters.request import CanonicalRequest
from adapters.schema import Choice

Message = dict[str, object]
T = TypeVar("T")

_objects: Final = msgspec.json.Decoder(list[Message])
_prompts: Final = msgspec.json.Decoder(str | list[str])
_switches: Final = msgspec.json.Decoder(bool | int | str)


def messages(request: CanonicalRequest) -> list[Message]:
    """Raises ValueError for what is no text."""
    return [_plain(message) for message in _decoded(request.fields.get("messages"), _objects) or []]


def tools(request: CanonicalRequest) -> list[Message] | None:
    """The tools that may be called; None for none. Raises ValueError."""
    return (_decoded(request.fields.get("tools"), _objects) or None) if request.tools else None


def prompt(request: CanonicalRequest, index: int) -> str:
    """A prompt of a legacy completion. Raises ValueError."""
    given = _decoded(request.fields.get("prompt"), _prompts)
    prompts = [given] if isinstance(given, str) else given or []
    if index >= len(prompts):
        raise ValueError(f"there is no prompt {index}")
    return prompts[index]


def switches(request: CanonicalRequest, reserved: Collection[str]) -> dict[str, object]:
    """The agent's `chat_template_kwargs`, such as `enable_thinking`: simple values, under names that are not ours."""
    try:
        given = open_object(raw) if told(raw := request.fields.get("chat_template_kwargs")) else {}
    except NotJSON:
        return {}
    found: dict[str, object] = {}
    for name, value in given.items():
        try:
            if name not in reserved:
                found[name] = decode(value, _switches)
        except NotJSON:
            continue
    return found


def reply(choice: Choice) -> Message:
    """A choice as the message that the agent will send back."""
    message: Message = {"role": "assistant", "content": choice.text or ""}
    if choice.reasoning:
        message["reasoning_content"] = choice.reasoning
    if choice.tool_calls:
        message["tool_calls"] = [
            {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": _parsed(call.arguments)}}
            for call in choice.tool_calls
        ]
    return message


def _plain(message: Message) -> Message:
    """A message as templates expect it: text for parts that are all text, arguments as the object that they mean."""
    content, calls = message.get("content"), message.get("tool_calls")
    plain = dict(message)
    if isinstance(content, list):
        plain["content"] = "".join(_text_of(part) for part in content)
    if isinstance(calls, list):
        plain["tool_calls"] = [_call(call) for call in calls]
    return plain


def _text_of(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    if not isinstance(text, str):
        raise ValueError("a message has parts that are not text")
    return text


def _call(call: object) -> object:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        return call
    return {**call, "function": {**function, "arguments": _parsed(function.get("arguments"))}}


def _parsed(arguments: object) -> object:
    try:
        return msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
    except msgspec.DecodeError:
        return arguments


def _decoded(raw: Raw | None, decoder: msgspec.json.Decoder[T]) -> T | None:
    return decode(raw, decoder) if told(raw) else None
