"""Which earlier call a prompt was to extend: the one whose answer is the last that its messages repeat.

That is told by what was said, not by how much of two prompts is alike: sub-agents share a system prompt and repeat
nothing, branches repeat the answer of another call, and a call that is asked twice repeats no answer of its twin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Final, TypeVar

from adapters.schema import Choice, Trace
from adapters.token_ids import TokenIds
from storage.samples.drift.history import History, Message, said
from storage.samples.drift.ids import common
from storage.samples.drift.texts import canonical, collapsed

_TWINS: Final = 32
"""Of calls that said or were asked the same the latest so many are considered, so that time is linear in the calls."""
_LATEST: Final = 8
"""Of calls without messages the latest so many are considered."""
_NO_ACCIDENT: Final = 8
"""Sampled ids in a row that stand in a prompt are repeated there."""

Found = TypeVar("Found")

_Said = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call with what is read of it."""

    number: int
    """0, 1, 2 … in the order of turns."""
    trace: Trace
    history: History | None
    exact: bool
    """Its prompt's ids and all that it sampled are the engine's own."""

    @property
    def prompt(self) -> TokenIds:
        return self.trace.prompt_token_ids or TokenIds()

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.history.messages if self.history else None) or ()

    @property
    def name(self) -> str:
        """For a person."""
        return f"call {self.number if self.trace.turn is None else self.trace.turn}"

    def path(self, choice: Choice) -> TokenIds:
        """What a call that goes on from this choice begins with."""
        return self.prompt + (choice.token_ids or TokenIds())


@dataclass(frozen=True, slots=True)
class Repeated:
    """The earlier call's choice that a call repeats, and which of the call's messages is its answer."""

    earlier: Call
    choice: Choice
    at: int | None
    """Null where there are no messages."""


@dataclass(slots=True, eq=False)
class _Node:
    """Messages from the first on; calls whose messages end here are known by it."""

    depth: int = 0
    after: dict[Message, _Node] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)


class Calls:
    """The calls so far, and which of them the next one repeats."""

    def __init__(self) -> None:
        self._root = _Node()
        self._by_answer: dict[_Said, list[tuple[Call, Choice, _Node]]] = defaultdict(list)
        self._without: list[Call] = []

    def add(self, call: Call) -> None:
        if not call.messages:
            self._without.append(call)
            return
        node = self._nodes(call.messages)[-1]
        node.calls.append(call)
        for choice in call.trace.choices:
            answer = _said(said(choice))
            if answer is not None:
                self._by_answer[answer].append((call, choice, node))

    def repeated_by(self, call: Call) -> Repeated | None:
        """None for a call that starts a conversation."""
        if not call.messages:
            return self._by_prompt(call)
        nodes = self._nodes(call.messages)
        by_answer = self._by_last_answer(call, nodes)
        by_messages = self._by_messages(call, nodes)
        if by_answer is None or by_messages is None:
            return by_answer or by_messages
        return by_messages if (by_messages.at or 0) > (by_answer.at or 0) else by_answer

    def _nodes(self, messages: tuple[Message, ...]) -> list[_Node]:
        """The node of no message, of the first, of the first two …"""
        nodes = [self._root]
        for message in messages:
            after = nodes[-1].after
            if message not in after:
                after[message] = _Node(nodes[-1].depth + 1)
            nodes.append(after[message])
        return nodes

    def _by_last_answer(self, call: Call, nodes: list[_Node]) -> Repeated | None:
        for at in range(len(call.messages) - 1, -1, -1):
            message = call.messages[at]
            answer = _said(message) if message.role == "assistant" else None
            known = self._by_answer.get(answer) if answer is not None else None
            if known:
                known = _latest(each for each in reversed(known) if each[2] is nodes[at]) or known[-_TWINS:]
                earlier, choice, _ = max(
                    known,
                    key=lambda each: (-abs(each[2].depth - at), _common(call, each[0], each[1]), each[0].number),
                )
                return Repeated(earlier, choice, at)
        return None

    def _by_messages(self, call: Call, nodes: list[_Node]) -> Repeated | None:
        """The call with the most messages of all whose messages this one repeats, before it says something else."""
        for at in range(len(call.messages) - 1, 0, -1):
            # One that had not ended yet gave no answer that could be repeated.
            ended = _latest(each for each in reversed(nodes[at].calls) if _ended(each.trace, call.trace))
            choices = [(each, choice) for each in ended for choice in each.trace.choices]
            if choices:
                earlier, choice = max(choices, key=lambda pair: (_common(call, *pair), pair[0].number, -pair[1].index))
                return Repeated(earlier, choice, at)
        return None

    def _by_prompt(self, call: Call) -> Repeated | None:
        """For prompts without messages: the latest call whose answer stands in this prompt, in ids or in text."""
        found = (
            Repeated(earlier, choice, None)
            for earlier in reversed(self._without[-_LATEST:])
            for choice in earlier.trace.choices
            if _repeats(call, earlier, choice)
        )
        return max(
            found,
            key=lambda repeated: (_common(call, repeated.earlier, repeated.choice), repeated.earlier.number),
            default=None,
        )


def _latest(backwards: Iterator[Found]) -> list[Found]:
    """In the order in which they came."""
    return list(islice(backwards, _TWINS))[::-1]


def _repeats(call: Call, earlier: Call, choice: Choice) -> bool:
    sampled = choice.token_ids or TokenIds()
    alike = _common(call, earlier, choice)
    if alike - len(earlier.prompt) >= min(_NO_ACCIDENT, max(1, len(sampled))):
        return True
    if any(stretch in bytes(call.prompt) for stretch in _stretches(sampled)):
        return True
    prompt, before = (each.history.prompt if each.history else None for each in (call, earlier))
    answer = collapsed(said(choice).text)
    if prompt is None or before is None or not answer or not prompt.startswith(before):
        return False
    return answer in collapsed(prompt[len(before) :])


def _stretches(sampled: TokenIds) -> Iterator[bytes]:
    """The sampled ids without the first, which a merge may have changed, and the last, which is the end of the turn."""
    inner = sampled[1:-1]
    if len(inner) >= _NO_ACCIDENT:
        yield bytes(inner[-_NO_ACCIDENT:])


def _common(call: Call, earlier: Call, choice: Choice) -> int:
    """How many ids of the earlier call's prompt and choice begin this prompt."""
    alike = common(earlier.prompt, call.prompt)
    if alike < len(earlier.prompt):
        return alike
    return alike + common(choice.token_ids or TokenIds(), call.prompt[alike:])


def _said(message: Message) -> _Said | None:
    """What is recognised of an answer, however it was spelled. None where nothing was said."""
    calls = tuple((call.name, canonical(call.arguments)) for call in message.calls)
    own = collapsed(message.text)
    return (own, calls) if own or calls else None


def _ended(earlier: Trace, later: Trace) -> bool:
    lasted = timedelta(milliseconds=earlier.duration_ms or 0)
    return earlier.started_at + lasted <= later.started_at
