"""The conversation that a recorded request repeats, as far as a document for people needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from adapters.schema import RecordedRequest


class Message(msgspec.Struct, frozen=True):
    """One message. Of an earlier answer that it repeats the text alone is kept."""

    role: str
    content: Any = None
    """Text or a list of parts, but nobody checked."""
    tool_call_id: str | None = None


class Conversation(msgspec.Struct, frozen=True):
    """A request's messages, and the tools that it offers. A legacy completion's prompt is one user message."""

    messages: tuple[Message, ...] = ()
    tools: list[dict[str, Any]] | None = None


class _Request(msgspec.Struct, frozen=True):
    messages: tuple[Message, ...] = ()
    system: Any = None
    """Anthropic's place for it."""
    prompt: Any = None
    tools: list[dict[str, Any]] | None = None


_UNREADABLE: Final = Conversation()
_decoder: Final = msgspec.json.Decoder(_Request)


def conversation(request: RecordedRequest) -> Conversation:
    """Empty where the body is not such a request: then only the ids tell what was said before."""
    try:
        told = _decoder.decode(request.body or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return _UNREADABLE
    messages = tuple(each for message in told.messages for each in _unfolded(message))
    if told.system:
        messages = (Message("system", told.system), *messages)
    if not messages and isinstance(told.prompt, str):
        messages = (Message("user", told.prompt),)
    return Conversation(messages, told.tools)


def _unfolded(message: Message) -> Iterator[Message]:
    """The message; of Anthropic's, in which results of tools are parts of what the user says, each result by itself.

    Without its marks for a cache, which move from message to message as a conversation grows.
    """
    if not isinstance(message.content, list) or not all(isinstance(part, dict) for part in message.content):
        yield message
        return
    said: list[dict[str, Any]] = []
    for part in message.content:
        match part.get("type"):
            case "tool_result":
                yield Message("tool", part.get("content"), str(part.get("tool_use_id")))
            case "tool_use" | "thinking" | "redacted_thinking":
                continue  # Of an answer, which the trace that it came from has told.
            case _:
                said.append({name: value for name, value in part.items() if name != "cache_control"})
    if said or message.role == "assistant" or not message.content:
        yield Message(message.role, said, message.tool_call_id)


def added(earlier: tuple[Message, ...], later: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages that a call has and the one before it had not, without the answer that came between."""
    same = 0
    while same < min(len(earlier), len(later)) and earlier[same] == later[same]:
        same += 1
    new = later[same:]
    return new[1:] if earlier and new and new[0].role == "assistant" else new
