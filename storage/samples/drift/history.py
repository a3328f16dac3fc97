"""What a recorded request repeats of the conversation: its messages, or its prompt, read once from its body."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

import msgspec

from adapters.raw import Fields, NotJSON, open_array, open_object, text
from adapters.schema import Choice, RecordedRequest
from storage.samples.drift.texts import without_thought

_REASONING: Final = ("reasoning_content", "reasoning")
"""Where agents give a thought back, by the names that servers give it to them."""
_RENDERED: Final[tuple[str, ...]] = (
    *("system", "tools", "functions", "tool_choice", "response_format", "documents"),
    *("chat_template", "chat_template_kwargs", "reasoning_effort", "continue_final_message", "add_generation_prompt"),
)
"""Fields beside the messages that templates write into a prompt."""


@dataclass(frozen=True, slots=True)
class Called:
    name: str
    arguments: str
    """As sent: text, or the JSON text of an object."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message, or what a choice said as one."""

    role: str
    text: str = ""
    """Without a thought that stands in it between marks."""
    thought: str = ""
    calls: tuple[Called, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """A request as far as a prompt is made of it."""

    messages: tuple[Message, ...] | None = None
    """Null where it has none: a legacy completion."""
    prompt: str | None = None
    """The text of a legacy completion's only prompt; null where it was sent as ids."""
    settings: Mapping[str, bytes] = field(default_factory=dict)
    """JSON of what else is rendered into the prompt."""


class Reader:
    """Reads the requests of one session. A message that many of them repeat is read once, and one object."""

    def __init__(self) -> None:
        self._known: dict[bytes, Message] = {}

    def read(self, request: RecordedRequest) -> History | None:
        """None for what is no JSON object."""
        try:
            fields = open_object(request.body or b"")
            settings = {name: bytes(fields[name]) for name in _RENDERED if name in fields}
            if "messages" in fields:
                messages = tuple(self._message(bytes(raw)) for raw in open_array(fields["messages"]))
                return History(messages, settings=settings)
        except NotJSON:
            return None
        return History(prompt=text(fields.get("prompt")), settings=settings)

    def _message(self, raw: bytes) -> Message:
        known = self._known.get(raw)
        if known is None:
            known = self._known[raw] = _message(open_object(raw))
        return known


def said(choice: Choice) -> Message:
    """A choice as the message that an agent would send back."""
    own, marked = without_thought(choice.text or "")
    calls = tuple(Called(call.name or "", call.arguments or "") for call in choice.tool_calls or ())
    return Message("assistant", own, choice.reasoning or marked, calls)


def _message(fields: Fields) -> Message:
    content = _value(fields.get("content"))
    parts = content if isinstance(content, list) else [content]
    own, marked = without_thought("".join(map(_part, parts)))
    told = (text(fields.get(name)) for name in _REASONING)
    thought = next((each for each in told if each), "") or "".join(map(_thought, parts)) or marked
    listed = _value(fields.get("tool_calls"))
    calls = [each.get("function") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    legacy = _value(fields.get("function_call"))
    calls += [legacy] if legacy is not None else []
    calls += [{"name": part.get("name"), "arguments": part.get("input")} for part in parts if _is_call(part)]
    return Message(text(fields.get("role")) or "", own, thought, tuple(map(_called, calls)))


def _part(part: object) -> str:
    """A part's text; what is no text (an image) by its digest, so that another one differs."""
    if part is None or isinstance(part, str):
        return part or ""
    if isinstance(part, dict):
        if isinstance(part.get("text"), str):
            return str(part["text"])
        if _thought(part) or _is_call(part):
            return ""
        # Anthropic's mark for its cache moves from message to message as a conversation grows.
        part = {name: value for name, value in part.items() if name != "cache_control"}
    digest = hashlib.sha256(msgspec.json.encode(part, order="deterministic")).hexdigest()[:12]
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    return f"[{kind} {digest}]"


def _is_call(part: object) -> TypeGuard[dict[str, object]]:
    """Anthropic's way: a call is a part of what the assistant said."""
    return isinstance(part, dict) and part.get("type") == "tool_use"


def _thought(part: object) -> str:
    found = part.get("thinking") or part.get("reasoning") if isinstance(part, dict) else None
    return found if isinstance(found, str) else ""


def _called(function: object) -> Called:
    if not isinstance(function, dict):
        return Called("", "")
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    return Called(str(function.get("name") or ""), arguments or "")


def _value(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)
