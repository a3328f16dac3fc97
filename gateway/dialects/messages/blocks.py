"""An answer's content blocks as events, one block after the other, however its pieces come.

An engine may give the pieces of several tool calls in turns, and text between them. A client takes one block at a time:
the first that has not ended goes out as it comes, and what belongs to later ones waits for its end.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, Literal, Protocol

import msgspec

from adapters.answer_shape import Delta
from adapters.tools import GrowingCall, GrowingCalls
from gateway.dialects.messages import thought

ThinkingShown = Literal["shown", "signed", "hidden"]
"""What a client sees of a thought: all of it, its signature alone, or nothing."""

JSON = Mapping[str, object]
PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'

_encode: Final = msgspec.json.Encoder().encode


def event(name: str, body: JSON) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _encode({"type": name, **body}))


def call_id(told: str | None) -> str:
    """The engine's own id of a call, which some templates want back; else one as Anthropic's."""
    return told or f"toolu_{uuid.uuid4().hex[:24]}"


class _Block(Protocol):
    """A content block in the making."""

    @property
    def whole(self) -> bool:
        """Whether nothing more can come of it once another block has begun."""

    @property
    def can_start(self) -> bool: ...

    def start(self) -> JSON:
        """The block as it begins."""

    def deltas(self) -> Iterable[JSON]:
        """What has come since this was last asked for."""

    def last(self) -> Iterable[JSON]:
        """What belongs before its end."""


class _Text:
    __slots__ = ("came",)
    whole = True
    can_start = True

    def __init__(self) -> None:
        self.came: list[str] = []

    def start(self) -> JSON:
        return {"type": "text", "text": ""}

    def deltas(self) -> Iterable[JSON]:
        said, self.came = "".join(self.came), []
        return [{"type": "text_delta", "text": said}] if said else []

    def last(self) -> Iterable[JSON]:
        return []


class _Thought:
    __slots__ = ("_sent", "_shown", "came")
    whole = True
    can_start = True

    def __init__(self, *, shown: bool) -> None:
        self.came: list[str] = []
        self._sent = 0
        self._shown = shown

    def start(self) -> JSON:
        return {"type": "thinking", "thinking": "", "signature": ""}

    def deltas(self) -> Iterable[JSON]:
        new, self._sent = "".join(self.came[self._sent :]), len(self.came)
        return [{"type": "thinking_delta", "thinking": new}] if new and self._shown else []

    def last(self) -> Iterable[JSON]:
        return [{"type": "signature_delta", "signature": thought.sign("".join(self.came), shown=self._shown)}]


class _Tool:
    __slots__ = ("_call", "_sent")

    def __init__(self, call: GrowingCall) -> None:
        self._call = call
        self._sent = 0

    @property
    def whole(self) -> bool:
        """A call whose arguments are a JSON value has ended, whatever its engine says of others meanwhile."""
        try:
            msgspec.json.decode("".join(self._call.arguments), type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError):
            return False
        return True

    @property
    def can_start(self) -> bool:
        """With the first of its arguments its name is whole."""
        return bool(self._call.arguments)

    def start(self) -> JSON:
        return {"type": "tool_use", "id": call_id(self._call.id), "name": self._call.name or "", "input": {}}

    def deltas(self) -> Iterable[JSON]:
        arguments = self._call.arguments
        new, self._sent = "".join(arguments[self._sent :]), len(arguments)
        return [{"type": "input_json_delta", "partial_json": new}] if new else []

    def last(self) -> Iterable[JSON]:
        return []


class BlockWriter:
    """Typed deltas of one choice in, events of its blocks out."""

    def __init__(self, thinking: ThinkingShown) -> None:
        self._thinking = thinking
        self._waiting: deque[_Block] = deque()
        """The first of them is the one that goes out as it comes."""
        self._started = False
        self._index = 0
        self._calls = GrowingCalls()
        self._known_calls = 0

    def add(self, delta: Delta) -> list[bytes]:
        if delta.reasoning and self._thinking != "hidden":
            if not (self._waiting and isinstance(block := self._waiting[-1], _Thought)):
                self._waiting.append(block := _Thought(shown=self._thinking == "shown"))
            block.came.append(delta.reasoning)
        if delta.text:
            if not (self._waiting and isinstance(spoken := self._waiting[-1], _Text)):
                self._waiting.append(spoken := _Text())
            spoken.came.append(delta.text)
        for fragment in delta.tool_calls:
            call = self._calls.add(fragment)
            if len(self._calls.calls) > self._known_calls:
                self._known_calls += 1
                self._waiting.append(_Tool(call))
        return self._events()

    def close(self) -> list[bytes]:
        """What is still owed, and the end of the last block."""
        return self._events(ending=True)

    def _events(self, *, ending: bool = False) -> list[bytes]:
        events: list[bytes] = []
        while self._waiting:
            block, last = self._waiting[0], len(self._waiting) == 1
            over = ending or (not last and block.whole)
            if not self._started and (over or block.can_start):
                self._started = True
                events.append(self._event("content_block_start", "content_block", block.start()))
                if self._index == 0:
                    events.append(PING)
            if self._started:
                events += [self._event("content_block_delta", "delta", delta) for delta in block.deltas()]
            if not over:
                break
            events += [self._event("content_block_delta", "delta", delta) for delta in block.last()]
            events.append(event("content_block_stop", {"index": self._index}))
            self._waiting.popleft()
            self._started = False
            self._index += 1
        return events

    def _event(self, name: str, key: str, value: JSON) -> bytes:
        return event(name, {"index": self._index, key: value})
