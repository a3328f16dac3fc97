"""What differs between two readings of a conversation, message by message, and what that is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storage.samples.drift import texts
from storage.samples.drift.history import Called, Message
from storage.samples.drift.report import Cause

_SYSTEM = ("system", "developer")
_Differs = tuple[Cause, str]


@dataclass(frozen=True, slots=True)
class Likely:
    """A cause, a sentence for a person, and the recorded text on both sides."""

    cause: Cause
    detail: str
    earlier_text: str
    later_text: str


def difference(earlier: Sequence[Message], later: Sequence[Message]) -> Likely | None:
    """The first difference between the messages of an earlier call and those that a later one has in their place."""
    head = _alike(earlier, later)
    tail = _alike(earlier[head:][::-1], later[head:][::-1])
    lost, gained = earlier[head : len(earlier) - tail], later[head : len(later) - tail]
    if not lost and not gained:
        return None
    if any(message.role in _SYSTEM for message in (*lost[:1], *gained[:1])):
        return _likely(("system_prompt_changed", _how_system_changed(lost, gained)), lost[:1], gained[:1])
    if len(lost) == len(gained):
        return of_message(lost[0], gained[0], f"message {head}") or of_message(lost[-1], gained[-1], "a message")
    if len(lost) < len(gained):
        put = f"{_count(len(gained) - len(lost), gained[0].role)} put in before message {head + len(lost)}"
        return _likely(("message_edited", put), lost, gained)
    if gained:
        words = f"from message {head} on {_count(len(lost), '')} replaced by {len(gained)}"
        return _likely(("message_dropped", words), lost, gained)
    if all(message.role in _SYSTEM for message in earlier[:head]):
        return _likely(("truncation", f"{_count(len(lost), '')} cut from the front of the history"), lost, later[head:])
    return _likely(("message_dropped", f"{_count(len(lost), '')} left out from message {head} on"), lost, later[head:])


def of_message(earlier: Message, later: Message, name: str) -> Likely | None:
    """How one message became another. None where they say the same."""
    differs = _of_message(earlier, later, name)
    return None if differs is None else _likely(differs, [earlier], [later])


def spoken(messages: Sequence[Message]) -> str:
    """Messages as a person reads them."""
    return "\n".join(filter(None, (part for message in messages for part in _parts(message))))


def _of_message(earlier: Message, later: Message, name: str) -> _Differs | None:
    """In the order in which a template writes a message, so that the first difference is where the ids part."""
    if earlier.role != later.role:
        return "message_edited", f"{name} was {_a(earlier.role)} and is {_a(later.role)}"
    if earlier.thought and not later.thought:
        return "stripped_reasoning", f"the reasoning of {name} was left out of the history"
    if later.thought and not earlier.thought:
        return "message_edited", f"{name} was given a reasoning that it did not have"
    thought = _of_text(earlier.thought, later.thought, f"the reasoning of {name}")
    return thought or _of_text(earlier.text, later.text, f"the text of {name}") or _of_calls(earlier, later, name)


def _of_text(earlier: str, later: str, name: str) -> _Differs | None:
    if earlier == later:
        return None
    if texts.same_but_space(earlier, later):
        return "whitespace", f"{name} came back with other white space"
    if texts.cut_from(earlier, later):
        return "truncation", f"{name} was cut from {len(earlier)} to {len(later)} characters"
    return "message_edited", f"{name} was changed"


def _of_calls(earlier: Message, later: Message, name: str) -> _Differs | None:
    for one, other in zip(earlier.calls, later.calls, strict=False):
        if one != other:
            return _of_call(one, other, name)
    if len(earlier.calls) != len(later.calls):
        return "message_edited", f"{name} had {_tools(earlier.calls)} and has {_tools(later.calls)}"
    return None


def _of_call(earlier: Called, later: Called, name: str) -> _Differs:
    if earlier.name != later.name:
        return "message_edited", f"{name} called {earlier.name or 'a tool'} and now calls {later.name or 'another'}"
    arguments = f"the arguments of {earlier.name or 'a tool call'} in {name}"
    if texts.same_json(earlier.arguments, later.arguments) or (
        texts.same_but_spelling(earlier.arguments, later.arguments)
    ):
        return "reserialised_tool_arguments", f"{arguments} were written anew, spelled otherwise"
    return "message_edited", f"{arguments} were changed"


def _how_system_changed(lost: Sequence[Message], gained: Sequence[Message]) -> str:
    if not lost or lost[0].role not in _SYSTEM:
        return "a system prompt was put in"
    if not gained or gained[0].role not in _SYSTEM:
        return "the system prompt was left out"
    at = texts.common_prefix(lost[0].text, gained[0].text)
    return f"the system prompt changed after {at} characters"


def _likely(differs: _Differs, lost: Sequence[Message], gained: Sequence[Message]) -> Likely:
    return Likely(*differs, *texts.around(spoken(lost[:1]), spoken(gained[:1])))


def _parts(message: Message) -> list[str]:
    return [message.thought, message.text, *(f"{call.name}({call.arguments})" for call in message.calls)]


def _alike(one: Sequence[Message], other: Sequence[Message]) -> int:
    alike = 0
    while alike < min(len(one), len(other)) and one[alike] == other[alike]:
        alike += 1
    return alike


def _count(number: int, role: str) -> str:
    role = f"{role} " if role else ""
    return f"one {role}message was" if number == 1 else f"{number} {role}messages were"


def _a(role: str) -> str:
    return f"{'an' if role[:1] in 'aeiou' else 'a'} {role or 'nameless'} message"


def _tools(calls: Sequence[Called]) -> str:
    return "one tool call" if len(calls) == 1 else f"{len(calls)} tool calls"
