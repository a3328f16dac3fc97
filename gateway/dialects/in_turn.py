"""The parts of an answer (thoughts, texts, calls) one after the other, however their pieces come.

An engine may give the pieces of several tool calls in turns, and text between them. A client takes one part at a time:
the first that has not ended goes out as it comes, and what belongs to later ones waits for its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Literal, Protocol

import msgspec

from adapters.answer_shape import Delta
from adapters.tools import GrowingCall, GrowingCalls


class Part(Protocol):
    """A part in the making, which says the events of its dialect."""

    @property
    def whole(self) -> bool:
        """Whether nothing more can come of it once another part has begun."""

    @property
    def can_start(self) -> bool: ...

    def start(self) -> Iterable[bytes]: ...

    def deltas(self) -> Iterable[bytes]:
        """What has come since this was last asked for."""

    def end(self) -> Iterable[bytes]: ...


class Words(Part, Protocol):
    """A text or a thought."""

    def add(self, words: str) -> None: ...


class Parts(Protocol):
    """Makes a dialect's parts. `index` counts them, from 0."""

    def text(self, index: int) -> Words: ...

    def thought(self, index: int) -> Words | None:
        """None where thoughts are not to be seen."""

    def call(self, index: int, call: GrowingCall) -> Part: ...


class CallPart:
    """What of a tool call is the same in every dialect."""

    __slots__ = ("_sent", "growing")

    def __init__(self, growing: GrowingCall) -> None:
        self.growing = growing
        self._sent = 0

    @property
    def whole(self) -> bool:
        """A call whose arguments are a JSON value has ended, whatever its engine says of others meanwhile."""
        try:
            msgspec.json.decode(self.arguments, type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError):
            return False
        return True

    @property
    def can_start(self) -> bool:
        """With the first of its arguments its name is whole."""
        return bool(self.growing.arguments)

    @property
    def arguments(self) -> str:
        return "".join(self.growing.arguments)

    def news(self) -> str:
        """The arguments that have come since this was last asked for."""
        came = self.growing.arguments
        new, self._sent = "".join(came[self._sent :]), len(came)
        return new


class InTurn:
    """Typed deltas of one choice in, events of its parts out."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._waiting: deque[Part] = deque()
        """The first of them is the one that goes out as it comes."""
        self._started = False
        self._made = 0
        self._words: Words | None = None
        self._kind: Literal["text", "thought", "call"] = "call"
        """Of the last part."""
        self._calls = GrowingCalls()
        self._known_calls = 0

    def add(self, delta: Delta) -> list[bytes]:
        if delta.reasoning:
            self._say("thought", delta.reasoning)
        if delta.text:
            self._say("text", delta.text)
        for fragment in delta.tool_calls:
            call = self._calls.add(fragment)
            if len(self._calls.calls) > self._known_calls:
                self._known_calls += 1
                self._kind = "call"
                self._wait(self._parts.call(self._made, call))
        return self._events()

    def close(self) -> list[bytes]:
        """What is still owed, and the end of the last part."""
        return self._events(ending=True)

    def _say(self, kind: Literal["text", "thought"], said: str) -> None:
        if self._kind != kind or self._words is None:
            part = self._parts.text(self._made) if kind == "text" else self._parts.thought(self._made)
            if part is None:
                return
            self._kind, self._words = kind, part
            self._wait(part)
        self._words.add(said)

    def _wait(self, part: Part) -> None:
        self._waiting.append(part)
        self._made += 1

    def _events(self, *, ending: bool = False) -> list[bytes]:
        events: list[bytes] = []
        while self._waiting:
            part, last = self._waiting[0], len(self._waiting) == 1
            over = ending or (not last and part.whole)
            if not self._started and (over or part.can_start):
                self._started = True
                events += part.start()
            if self._started:
                events += part.deltas()
            if not over:
                break
            events += part.end()
            self._waiting.popleft()
            self._started = False
        return events
