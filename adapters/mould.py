"""Chunks alike: nearly every chunk of a stream is the one before it with other values in the same places.

A mould is the text that such chunks share. One that is this text, byte for byte, around values of its own says what
the first of them said, and only its values are new: it is read in one step, and none of the rest is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from adapters.answer_shape import Chunk
from adapters.raw import NULL, REFUSALS

Path = tuple[str, ...]
"""The names on the way from the root of a chunk to a value; `THE_CHOICE` stands for the only item of `choices`."""
Values = tuple[Raw, ...]
Level = Literal["root", "choice", "delta", "beside"]

CHOICES: Final = "choices"
THE_CHOICE: Final = "[]"
INDEX: Final = (CHOICES, THE_CHOICE, "index")


Target = tuple[int, Level, Path]
"""A slot, and a place of the opened chunk that its value comes to, to be folded there."""


class Text(msgspec.Struct, frozen=True):
    """JSON with slots: what stands before, between and after them, and which slot's value comes after each part."""

    fixed: tuple[bytes, ...]
    slots: tuple[int, ...]

    def of(self, values: Sequence[bytes | Raw]) -> bytes:
        """The text around one chunk's values."""
        parts: list[bytes | Raw] = [self.fixed[0]]
        for slot, fixed in zip(self.slots, self.fixed[1:], strict=True):
            parts += values[slot], fixed
        return b"".join(parts)

    def of_all(self, rows: Sequence[Values]) -> bytes:
        """The texts around each chunk's values, one after the other."""
        if not self.slots:
            return self.fixed[0] * len(rows)
        columns = tuple(zip(*rows, strict=True))
        parts: list[Iterable[bytes | Raw]] = [repeat(self.fixed[0])]
        for slot, fixed in zip(self.slots, self.fixed[1:], strict=True):
            parts += columns[slot], repeat(fixed)
        return b"".join(chain.from_iterable(zip(*parts, strict=False)))


class Mould:
    """What chunks alike have in common.

    `client` is what an agent gets of one; null where that depends on the values.
    """

    __slots__ = ("_decode", "_index_slot", "_open", "_parts", "_values", "client", "targets", "text")

    def __init__(
        self,
        text: Text,
        paths: tuple[Path, ...],
        open_chunk: Callable[[bytes], Chunk],
        *,
        targets: Sequence[Target] = (),
        client: Text | None = None,
    ) -> None:
        """`paths` are those of the slots, in order."""
        self.text = text
        self.targets = targets
        self.client = client
        self._index_slot = paths.index(INDEX) if INDEX in paths else None
        self._open = open_chunk
        self._decode, self._values = _reading(paths)
        self._parts: list[bytes | Raw] = [part for fixed in text.fixed for part in (fixed, b"")][:-1]

    def values(self, data: bytes) -> Values | None:
        """The values of a chunk that is of this mould; None for any other. Nulls are others: they tell nothing."""
        try:
            values = self._values(self._decode(data))
        except REFUSALS:
            return None
        self._parts[1::2] = values
        return None if b"".join(self._parts) != data or NULL in values or b"\n" in data else values

    def opened(self, values: Values) -> Chunk:
        """The chunk that has these values, as if it had come alone."""
        return self._open(self.text.of(values))

    def by_choice(self, rows: Sequence[Values]) -> Iterable[Sequence[Values]]:
        """The values of many chunks, those of each choice together."""
        slot = self._index_slot
        if slot is None:
            return (rows,)
        of_choice: dict[bytes, list[Values]] = {}
        for values in rows:
            of_choice.setdefault(bytes(values[slot]), []).append(values)
        return of_choice.values()


Node = dict[str, "Node | None"]
"""The members on the ways to the slots; a slot itself is None."""


@lru_cache(maxsize=128)
def _reading(paths: tuple[Path, ...]) -> tuple[Callable[[bytes], object], Callable[[Any], Values]]:
    """How the values at these paths are read out of a chunk: in two calls, and all else is skipped."""
    root: Node = {}
    for path in paths:
        node: Node | None = root
        for name in path[:-1]:
            assert node is not None
            node = node.setdefault(name, {})
        assert node is not None
        node[path[-1]] = None
    decode = msgspec.json.Decoder(_struct(root)).decode
    get: Callable[[Any], Any] = attrgetter(*(_attributes(root, path) for path in paths))
    return decode, get if len(paths) > 1 else lambda chunk: (get(chunk),)


def _struct(node: Node, *, of_choices: bool = False) -> type[msgspec.Struct]:
    """The objects that hold the slots; a list of one is read as an object of one member."""
    members = {
        _attribute(number): Raw if inner is None else _struct(inner, of_choices=THE_CHOICE in inner)
        for number, inner in enumerate(node.values())
    }
    names = dict(zip(members, node, strict=True))
    return msgspec.defstruct("Alike", list(members.items()), rename=names, array_like=of_choices, gc=False)


def _attributes(root: Node, path: Path) -> str:
    attributes = []
    node: Node | None = root
    for name in path:
        assert node is not None
        attributes.append(_attribute(list(node).index(name)))
        node = node[name]
    return ".".join(attributes)


def _attribute(number: int) -> str:
    return f"member_{number}"
