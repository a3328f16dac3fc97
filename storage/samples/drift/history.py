"""What a recorded request repeats of the conversation: its messages or its prompt, as the chat has them that it became.

How each dialect says a conversation is that dialect's own matter. Whoever asks for a report gives a function that makes
of a trace the request that its engine was asked with, and that is all that is read here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from adapters.raw import Fields, NotJSON, open_array, open_object, text
from adapters.request import CanonicalRequest
from adapters.schema import Choice, Trace
from storage.samples.drift.texts import without_thought

_REASONING: Final = ("reasoning_content", "reasoning")
"""Where agents give a thought back, by the names that servers give it to them."""
_RENDERED: Final[tuple[str, ...]] = (
    *("tools", "functions", "tool_choice", "response_format", "documents"),
    *("chat_template", "chat_template_kwargs", "reasoning_effort", "continue_final_message", "add_generation_prompt"),
)
"""Fields beside the messages that templates write into a prompt."""

RequestOf = Callable[[Trace], CanonicalRequest | None]
"""The chat or completion that a recorded request came to; None where it came to none."""


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

    def __init__(self, request_of: RequestOf) -> None:
        self._request_of = request_of
        self._known: dict[bytes, Message] = {}

    def read(self, trace: Trace) -> History | None:
        """None for what was no request."""
        request = self._request_of(trace)
        if request is None:
            return None
        fields = request.fields
        if request.endpoint == "completions":
            return History(prompt=text(fields.get("prompt")))
        settings = {name: bytes(fields[name]) for name in _RENDERED if name in fields}
        try:
            messages = tuple(self._message(bytes(raw)) for raw in open_array(fields["messages"]))
        except NotJSON:
            return None
        return History(messages, settings=settings)

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
    return Message(text(fields.get("role")) or "", own, thought, tuple(map(_called, calls)))


def _part(part: object) -> str:
    """A part's text; what is no text (an image) by its digest, so that another one differs."""
    if part is None or isinstance(part, str):
        return part or ""
    if isinstance(part, dict):
        if isinstance(part.get("text"), str):
            return str(part["text"])
        if _thought(part):
            return ""
        # A mark for a cache moves from message to message as a conversation grows.
        part = {name: value for name, value in part.items() if name != "cache_control"}
    digest = hashlib.sha256(msgspec.json.encode(part, order="deterministic")).hexdigest()[:12]
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    return f"[{kind} {digest}]"


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
    """Raises NotJSON for what engines refuse: a number that is none (1e999), a nesting without end."""
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise NotJSON(str(exc)) from exc
