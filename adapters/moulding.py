"""How moulds are made: from one chunk, and only where a chunk with other values reads like it.

That is tried, not assumed: the chunk is opened and stripped once more with a made-up value in each slot. Where these do
not come out as the true ones did, each in its place, there is no mould, and every chunk is read by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from adapters.answer_shape import Chunk
from adapters.fold import Fold, Folding
from adapters.mould import BLANK_LINE, Form, Mould, Target, Values
from adapters.raw import NULL, NotJSON, open_object, open_objects, told
from adapters.rules import ByColumn, First, Members
from adapters.strip import Stripper

_CHANCES: Final = 64
"""How many chunks of an answer are looked at for a mould, so that one without any costs no more than that."""
_MOULDS: Final = 16
_REACH: Final = 64
"""How many chunks are read at once where that has not failed."""
_LARGEST: Final = 64 * 1024

Path = tuple[str, ...]


class Leaf(NamedTuple):
    """A value of a chunk that is not looked into, with where it stands in the text."""

    path: Path
    raw: Raw
    start: int
    varies: bool
    """Whether it is a slot: others have been seen in its place, or each one counts, be it the same."""


Layout = tuple[int, tuple[tuple[Path, bool], ...]]
"""The choice that a chunk is of, the paths of its leaves, and whether they are null."""


class Run(msgspec.Struct, frozen=True, gc=False):
    """Chunks alike, one after the other. A Struct, for a slow stream has one a token."""

    mould: Mould
    values: Values
    length: int


class Moulds:
    """The moulds of one answer."""

    def __init__(self, fold: Fold, stripper: Stripper, open_chunk: Callable[[bytes], Chunk]) -> None:
        self._fold = fold
        self._stripper = stripper
        self._open = open_chunk
        self._chances = _CHANCES
        self._reach = _REACH
        self._seen: dict[Layout, Sequence[Leaf]] = {}
        self._moulds: dict[Layout, Mould] = {}

    def run(self, blocks: Sequence[bytes], start: int) -> Run | None:
        """As many chunks of one mould as stand here; None where there is none."""
        end = min(len(blocks), start + self._reach)
        for mould in reversed(self._moulds.values()):
            parts = mould.parts(blocks, start, end)
            while parts:
                values = mould.values(parts)
                length = len(parts) // mould.width
                if values is not None:
                    self._reach = max(self._reach, 2 * length)
                    return Run(mould, values, length)
                # Fewer from now on, or the time would grow with the square of the blocks where every other one fails.
                length //= 2
                self._reach = length + 1
                parts = parts[: length * mould.width]
        return None

    def learn(self, block: bytes, data: bytes, chunk: Chunk) -> None:
        """A chunk that was read by itself and has been folded: others may be like it."""
        if self._chances <= 0 or len(block) > _LARGEST or not block.endswith(data) or not _goes_on(chunk):
            return
        self._chances -= 1
        index = chunk.choices[0].index
        folding = self._fold.folding(index)
        try:
            leaves = list(_leaves(data, folding)) if folding is not None else []
        except ValueError:
            return
        layout = (index, tuple((leaf.path, leaf.raw == NULL) for leaf in leaves))
        if (before := self._seen.get(layout)) is not None:
            leaves = [
                leaf._replace(varies=leaf.varies or old.varies or leaf.raw != old.raw)
                for leaf, old in zip(leaves, before, strict=True)
            ]
        self._seen[layout] = leaves
        self._moulds.pop(layout, None)
        if folding is not None and (mould := self._mould(block, data, chunk, folding, leaves)) is not None:
            self._moulds[layout] = mould
            if len(self._moulds) > _MOULDS:
                del self._moulds[next(iter(self._moulds))]

    def _mould(self, block: bytes, data: bytes, chunk: Chunk, folding: Folding, leaves: Sequence[Leaf]) -> Mould | None:
        slots = [leaf for leaf in leaves if leaf.varies]
        true, made_up = [leaf.raw for leaf in slots], [_made_up(slot, leaf.raw) for slot, leaf in enumerate(slots)]
        if not slots or not self._stripper.goes_by_layout(leaf.path for leaf in slots):
            return None
        fixed = _around(data, slots)
        marked = Form(fixed, range(len(slots))).filled(made_up, len(slots))
        try:
            opened = self._open(marked)
            if not _goes_on(opened) or opened.choices[0].index != chunk.choices[0].index:
                return None
            targets = list(_targets(chunk, opened, folding, made_up))
        except (NotJSON, _Unlike):
            return None
        client = _client(self._stripper.chunk(opened, marked), made_up)
        kept = self._stripper.chunk(chunk, data)
        if client.filled(true, len(slots)) != (b"data: " + kept + BLANK_LINE if kept else b""):
            return None
        mould = Mould(block[: -len(data)], fixed, targets, client, self._open)
        return mould if mould.values(mould.parts([block], 0, 1)) == true else None


class _Unlike(ValueError):
    """A chunk with other values does not read like the one with the true ones."""


def _goes_on(chunk: Chunk) -> bool:
    """Whether it is of one choice that goes on, and nothing is amiss."""
    if len(chunk.choices) != 1 or chunk.odd or chunk.error is not None or "error" in chunk.root:
        return False
    return not told(chunk.choices[0].fields.get("finish_reason"))


def _leaves(data: bytes, folding: Folding) -> Iterator[Leaf]:
    """The values of a chunk in the order of its text. What folds member by member is looked into. Raises ValueError."""
    return _Walk(data, folding).leaves((), open_object(data), folding.root)


class _Walk:
    """Through a chunk's text, from its begin to its end."""

    def __init__(self, data: bytes, folding: Folding) -> None:
        self._data = data
        self._folding = folding
        self._at = 0

    def leaves(self, path: Path, fields: Mapping[str, Raw], folded: Members) -> Iterator[Leaf]:
        for name, raw in fields.items():
            key = msgspec.json.encode(name)
            self._at = self._data.index(bytes(raw), self._data.index(key, self._at) + len(key))
            here = (*path, name)
            member = folded.member(name)
            if here == ("choices",):
                [choice] = open_objects(raw)
                yield from self.leaves(here, choice, self._folding.choice)
            elif here == ("choices", "delta") and told(raw):
                yield from self.leaves(here, open_object(raw), self._folding.delta)
            elif isinstance(member, Members) and told(raw):
                yield from self.leaves(here, open_object(raw), member)
            else:
                said_once = member is None or member.settled or isinstance(member, First)
                yield Leaf(here, raw, self._at, told(raw) and not said_once)
                self._at += len(raw)


def _around(data: bytes, slots: Sequence[Leaf]) -> list[bytes]:
    """The text before, between and after the slots."""
    ends = [0, *(leaf.start + len(leaf.raw) for leaf in slots)]
    starts = [*(leaf.start for leaf in slots), len(data)]
    return [data[end:start] for end, start in zip(ends, starts, strict=True)]


def _made_up(slot: int, raw: Raw) -> Raw:
    """A value of the same kind that nothing else says."""
    kind = bytes(raw)[:1]
    if kind == b'"':
        return Raw(b'"<slot %d>"' % slot)
    if kind == b"[":
        return Raw(b'["<slot %d>"]' % slot)
    return Raw(b'{"<slot %d>":0}' % slot if kind == b"{" else b"90071992547%05d" % slot)


def _targets(chunk: Chunk, opened: Chunk, folding: Folding, made_up: Values) -> Iterator[Target]:
    """What each slot's value is to be folded into. Raises _Unlike."""
    slots = {bytes(raw): slot for slot, raw in enumerate(made_up)}
    [before], [choice] = chunk.choices, opened.choices
    yield from _targets_in(opened.root, chunk.root, folding.root, slots)
    yield from _targets_in(choice.fields, before.fields, folding.choice, slots)
    yield from _targets_in(choice.delta or {}, before.delta or {}, folding.delta, slots)
    yield from _targets_in(choice.beside, before.beside, folding.beside, slots)


def _targets_in(
    fields: Mapping[str, Raw], true: Mapping[str, Raw], folded: Members, slots: Mapping[bytes, int]
) -> Iterator[Target]:
    if list(fields) != list(true):
        raise _Unlike
    for name, raw in fields.items():
        member = folded.member(name)
        if raw == true[name] == NULL or (member is not None and member.settled):
            continue
        if isinstance(member, Members) and told(true[name]):
            yield from _targets_in(open_object(raw), open_object(true[name]), member, slots)
        elif isinstance(member, ByColumn) and (slot := slots.get(bytes(raw))) is not None:
            yield slot, member
        elif not isinstance(member, First) or raw != true[name]:
            raise _Unlike


def _client(kept: bytes, made_up: Values) -> Form:
    """The frame for the agent that these bytes are of, with its slots."""
    if not kept:
        return Form((b"",), ())
    found = sorted((kept.find(bytes(raw)), slot) for slot, raw in enumerate(made_up))
    places = [(start, slot) for start, slot in found if start >= 0]
    starts = [*(start for start, _ in places), len(kept)]
    ends = [0, *(start + len(made_up[slot]) for start, slot in places)]
    fixed = [kept[end:start] for end, start in zip(ends, starts, strict=True)]
    fixed[0] = b"data: " + fixed[0]
    fixed[-1] += BLANK_LINE
    return Form(fixed, [slot for _, slot in places])
