"""Tool calls in pieces: what a chunk says of them, and the calls that the pieces make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from adapters.answer_shape import ToolFragment
from adapters.raw import NULL, NotJSON, decode, text, told
from adapters.rules import ByColumn, Odd, joined_items
from adapters.schema import ToolCall


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: Raw = NULL


class _Call(msgspec.Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


_calls: Final = msgspec.json.Decoder(list[_Call])


def fragments(raw: Raw) -> tuple[ToolFragment, ...]:
    """The pieces that a chunk's (or the calls that a message's) `tool_calls` holds. Raises NotJSON."""
    return tuple(
        ToolFragment(
            position=call.index,
            id=call.id,
            name=call.function.name if call.function else None,
            arguments=_arguments(call.function.arguments) if call.function else None,
        )
        for call in decode(raw, _calls)
    )


def tool_calls(raw: Raw) -> tuple[ToolCall, ...]:
    """The calls of a whole message. Raises NotJSON."""
    return tuple(ToolCall(call.id, call.name, call.arguments) for call in fragments(raw))


def _arguments(raw: Raw) -> str | None:
    """The arguments' JSON text. Some servers give the object itself where the text of it belongs."""
    if not told(raw):
        return None
    given = text(raw)
    return given if given is not None else bytes(raw).decode(errors="replace")


class GrowingCall:
    """One tool call as its pieces come."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name: str | None = None
        self.arguments: list[str] = []

    def _add(self, piece: ToolFragment) -> None:
        self.id = self.id or piece.id
        # Some engines repeat the whole name with each piece; no known one gives it in equal halves.
        if piece.name and piece.name != self.name:
            self.name = (self.name or "") + piece.name
        if piece.arguments:
            self.arguments.append(piece.arguments)


class GrowingCalls:
    """The calls that pieces make, in their order. Pieces belong together by index, by id where there is none."""

    __slots__ = ("_at", "calls")

    def __init__(self) -> None:
        self.calls: list[GrowingCall] = []
        self._at: dict[int, GrowingCall] = {}

    def add(self, piece: ToolFragment) -> GrowingCall:
        """The call that the piece belongs to, with it."""
        call = self._call_of(piece)
        call._add(piece)
        return call

    def _call_of(self, piece: ToolFragment) -> GrowingCall:
        if piece.position is not None:
            call = self._at.get(piece.position)
            if call is None or _begins_another(piece, call):
                call = self._at[piece.position] = self._begin()
            return call
        if not self.calls:
            return self._begin()
        if piece.id is not None:
            for call in self.calls:
                if call.id == piece.id:
                    return call
        last = self.calls[-1]
        return self._begin() if _begins_another(piece, last) or (piece.name and piece.id is None) else last

    def _begin(self) -> GrowingCall:
        call = GrowingCall()
        self.calls.append(call)
        return call


class ToolCalls(ByColumn):
    """The folding rule for `delta.tool_calls`."""

    __slots__ = ("_growing",)
    settled = False

    def __init__(self) -> None:
        self._growing = GrowingCalls()

    def add(self, raw: Raw) -> None:
        try:
            pieces = fragments(raw)
        except NotJSON as exc:
            raise Odd(f"not tool calls: {exc}") from None
        self._add(pieces)

    def adding(self, raws: Sequence[Raw]) -> Callable[[], None]:
        try:
            pieces = fragments(Raw(b"[" + joined_items(raws) + b"]"))
        except NotJSON as exc:
            raise Odd(f"not tool calls: {exc}") from None
        return lambda: self._add(pieces)

    def _add(self, pieces: Iterable[ToolFragment]) -> None:
        for piece in pieces:
            self._growing.add(piece)

    def json(self) -> Raw:
        return Raw(
            msgspec.json.encode(
                [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": "".join(call.arguments)},
                    }
                    for call in self._growing.calls
                ]
            )
        )


def _begins_another(piece: ToolFragment, call: GrowingCall) -> bool:
    """A new id with a name is a new call, even under an index that was used: some servers count every call as 0."""
    return bool(piece.id and piece.name and call.id and piece.id != call.id)
