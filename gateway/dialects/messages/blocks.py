"""An answer's parts as content blocks, with their events."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from adapters.tools import GrowingCall
from gateway.dialects import thought
from gateway.dialects.in_turn import CallPart, InTurn

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


def _start(index: int, block: JSON) -> Iterable[bytes]:
    yield event("content_block_start", {"index": index, "content_block": block})
    if index == 0:
        yield PING


def _delta(index: int, delta: JSON) -> bytes:
    return event("content_block_delta", {"index": index, "delta": delta})


def _stop(index: int) -> bytes:
    return event("content_block_stop", {"index": index})


class _Text:
    __slots__ = ("_came", "_index")
    whole = True
    can_start = True

    def __init__(self, index: int) -> None:
        self._index = index
        self._came: list[str] = []

    def add(self, words: str) -> None:
        self._came.append(words)

    def start(self) -> Iterable[bytes]:
        return _start(self._index, {"type": "text", "text": ""})

    def deltas(self) -> Iterable[bytes]:
        said, self._came = "".join(self._came), []
        return [_delta(self._index, {"type": "text_delta", "text": said})] if said else []

    def end(self) -> Iterable[bytes]:
        return [_stop(self._index)]


class _Thought:
    __slots__ = ("_came", "_index", "_sent", "_shown")
    whole = True
    can_start = True

    def __init__(self, index: int, *, shown: bool) -> None:
        self._index = index
        self._came: list[str] = []
        self._sent = 0
        self._shown = shown

    def add(self, words: str) -> None:
        self._came.append(words)

    def start(self) -> Iterable[bytes]:
        return _start(self._index, {"type": "thinking", "thinking": "", "signature": ""})

    def deltas(self) -> Iterable[bytes]:
        new, self._sent = "".join(self._came[self._sent :]), len(self._came)
        return [_delta(self._index, {"type": "thinking_delta", "thinking": new})] if new and self._shown else []

    def end(self) -> Iterable[bytes]:
        signature = thought.sign("".join(self._came), shown=self._shown)
        return [_delta(self._index, {"type": "signature_delta", "signature": signature}), _stop(self._index)]


class _Tool(CallPart):
    __slots__ = ("_index",)

    def __init__(self, index: int, call: GrowingCall) -> None:
        super().__init__(call)
        self._index = index

    def start(self) -> Iterable[bytes]:
        call = self.growing
        return _start(self._index, {"type": "tool_use", "id": call_id(call.id), "name": call.name or "", "input": {}})

    def deltas(self) -> Iterable[bytes]:
        new = self.news()
        return [_delta(self._index, {"type": "input_json_delta", "partial_json": new})] if new else []

    def end(self) -> Iterable[bytes]:
        return [_stop(self._index)]


class _Blocks:
    """Makes an answer's blocks."""

    def __init__(self, thinking: ThinkingShown) -> None:
        self._thinking = thinking

    def text(self, index: int) -> _Text:
        return _Text(index)

    def thought(self, index: int) -> _Thought | None:
        return None if self._thinking == "hidden" else _Thought(index, shown=self._thinking == "shown")

    def call(self, index: int, call: GrowingCall) -> _Tool:
        return _Tool(index, call)


class BlockWriter(InTurn):
    """Typed deltas of one choice in, events of its blocks out."""

    def __init__(self, thinking: ThinkingShown) -> None:
        super().__init__(_Blocks(thinking))
