"""An answer's parts as output items, with their events; whole, each item is the same as at its stream's end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adapters.tools import GrowingCall
from gateway.dialects import thought
from gateway.dialects.in_turn import CallPart
from gateway.dialects.responses import names
from gateway.dialects.responses.custom import input_of
from gateway.dialects.responses.events import JSON, Events
from gateway.dialects.responses.tools import Offered


class Items:
    """Makes an answer's items, and keeps those that have ended."""

    def __init__(self, trace_id: str, offered: Mapping[str, Offered]) -> None:
        self.events = Events()
        self.trace_id = trace_id
        self.offered = offered
        self.ended: list[JSON] = []
        self.logprobs: list[JSON] = []
        """Of the tokens that came since a text last told of some."""
        self.call_ids: set[str] = set()
        self.cut = False
        """Whether the answer ends before its end: so does its last item."""
        self.refuses = False
        """Whether the text says why there is no answer."""
        self._counts = {"rs": 0, "msg": 0, "call": 0}
        self._last = -1

    def text(self, index: int) -> _Text:
        self._last = index
        kind = _Refusal if self.refuses else _Text
        return kind(self, index, self._count("msg"))

    def thought(self, index: int) -> _Thought:
        self._last = index
        return _Thought(self, index, self._count("rs"))

    def call(self, index: int, call: GrowingCall) -> _Call:
        self._last = index
        return _Call(self, index, self._count("call"), call)

    def status_of(self, index: int) -> str:
        return "incomplete" if self.cut and index == self._last else "completed"

    def _count(self, kind: str) -> int:
        number = self._counts[kind]
        self._counts[kind] = number + 1
        return number


class _Item:
    """What all items have: an id, a place, a first and a last event."""

    def __init__(self, items: Items, index: int, item_id: str) -> None:
        self._items = items
        self._index = index
        self._id = item_id

    def _event(self, name: str, body: JSON) -> bytes:
        place = {"item_id": self._id, "output_index": self._index}
        return self._items.events.event(f"response.{name}", {**place, **body})

    def _added(self, item: JSON) -> bytes:
        return self._items.events.event("response.output_item.added", {"output_index": self._index, "item": item})

    def _done(self, item: JSON) -> bytes:
        self._items.ended.append(item)
        return self._items.events.event("response.output_item.done", {"output_index": self._index, "item": item})


class _Text(_Item):
    whole = True
    can_start = True

    def __init__(self, items: Items, index: int, number: int) -> None:
        super().__init__(items, index, names.item_id("msg", items.trace_id, number))
        self._came: list[str] = []
        self._said: list[str] = []
        self._logprobs: list[JSON] = []

    def add(self, words: str) -> None:
        self._came.append(words)

    def start(self) -> Iterable[bytes]:
        yield self._added(self._item([], "in_progress"))
        yield self._event("content_part.added", {"content_index": 0, "part": self._part("", [])})

    def deltas(self) -> Iterable[bytes]:
        new, self._came = "".join(self._came), []
        if new:
            self._said.append(new)
            told = self._told()
            yield self._event("output_text.delta", {"content_index": 0, "delta": new, "logprobs": told})

    def end(self) -> Iterable[bytes]:
        self._told()
        text = "".join(self._said)
        part = self._part(text, self._logprobs)
        yield self._event("output_text.done", {"content_index": 0, "text": text, "logprobs": self._logprobs})
        yield self._event("content_part.done", {"content_index": 0, "part": part})
        yield self._done(self._item([part], self._items.status_of(self._index)))

    def _told(self) -> list[JSON]:
        new, self._items.logprobs = self._items.logprobs, []
        self._logprobs += new
        return new

    def _part(self, text: str, logprobs: list[JSON]) -> JSON:
        return {"type": "output_text", "annotations": [], "logprobs": logprobs, "text": text}

    def _item(self, content: list[JSON], status: str) -> JSON:
        return {"id": self._id, "type": "message", "status": status, "role": "assistant", "content": content}


class _Refusal(_Text):
    def deltas(self) -> Iterable[bytes]:
        new, self._came = "".join(self._came), []
        if new:
            self._said.append(new)
            yield self._event("refusal.delta", {"content_index": 0, "delta": new})

    def end(self) -> Iterable[bytes]:
        words = "".join(self._said)
        part = self._part(words, [])
        yield self._event("refusal.done", {"content_index": 0, "refusal": words})
        yield self._event("content_part.done", {"content_index": 0, "part": part})
        yield self._done(self._item([part], self._items.status_of(self._index)))

    def _part(self, text: str, logprobs: list[JSON]) -> JSON:
        return {"type": "refusal", "refusal": text}


class _Thought(_Item):
    whole = True
    can_start = True

    def __init__(self, items: Items, index: int, number: int) -> None:
        super().__init__(items, index, names.item_id("rs", items.trace_id, number))
        self._came: list[str] = []
        self._sent = 0

    def add(self, words: str) -> None:
        self._came.append(words)

    def start(self) -> Iterable[bytes]:
        yield self._added({"id": self._id, "type": "reasoning", "summary": [], "content": [], "status": "in_progress"})
        yield self._event("content_part.added", {"content_index": 0, "part": self._part("")})

    def deltas(self) -> Iterable[bytes]:
        new, self._sent = "".join(self._came[self._sent :]), len(self._came)
        if new:
            yield self._event("reasoning_text.delta", {"content_index": 0, "delta": new})

    def end(self) -> Iterable[bytes]:
        text = "".join(self._came)
        part = self._part(text)
        yield self._event("reasoning_text.done", {"content_index": 0, "text": text})
        yield self._event("content_part.done", {"content_index": 0, "part": part})
        yield self._done(
            {
                "id": self._id,
                "type": "reasoning",
                "summary": [],
                "content": [part],
                # Codex sends no words of a thought back, but this; the next prompt is to have the thought as it was.
                "encrypted_content": thought.sign(text, shown=False),
                "status": self._items.status_of(self._index),
            }
        )

    def _part(self, text: str) -> JSON:
        return {"type": "reasoning_text", "text": text}


class _Call(CallPart, _Item):
    """A call of a function or, as its name tells, of a custom tool, whose input goes out when it is whole."""

    def __init__(self, items: Items, index: int, number: int, call: GrowingCall) -> None:
        CallPart.__init__(self, call)
        _Item.__init__(self, items, index, "")
        self._number = number
        self._custom = False
        self._call_id = ""

    def start(self) -> Iterable[bytes]:
        items = self._items
        offered = items.offered.get(self.growing.name or "")
        self._custom = offered is not None and offered.type == "custom"
        self._id = names.item_id("ctc" if self._custom else "fc", items.trace_id, self._number)
        self._call_id = names.call_id(self.growing.id, items.trace_id, self._number, items.call_ids)
        items.call_ids.add(self._call_id)
        yield self._added(self._item("", "in_progress"))

    def deltas(self) -> Iterable[bytes]:
        if not self._custom and (new := self.news()):
            yield self._event("function_call_arguments.delta", {"delta": new})

    def end(self) -> Iterable[bytes]:
        status = "incomplete" if self._items.cut and not self.whole else "completed"
        arguments = self.arguments
        if self._custom:
            text = input_of(arguments)
            yield self._event("custom_tool_call_input.delta", {"delta": text})
            yield self._event("custom_tool_call_input.done", {"input": text})
            yield self._done(self._item(text, status))
            return
        if not arguments.strip():
            arguments = "{}"
            yield self._event("function_call_arguments.delta", {"delta": arguments})
        told = {"name": self.growing.name or "", "arguments": arguments}
        yield self._event("function_call_arguments.done", told)
        yield self._done(self._item(arguments, status))

    def _item(self, said: str, status: str) -> JSON:
        offered = self._items.offered.get(self.growing.name or "")
        item: dict[str, object] = {
            "id": self._id,
            "type": "custom_tool_call" if self._custom else "function_call",
            "status": status,
            "call_id": self._call_id,
            "name": offered.name if offered is not None else self.growing.name or "",
            "input" if self._custom else "arguments": said,
        }
        if offered is not None and offered.namespace:
            item["namespace"] = offered.namespace
        return item
