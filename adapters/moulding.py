"""How moulds are made: from two chunks of one layout, and only where a chunk with other values reads like them.

That is tried, not assumed: the chunk is opened and stripped once more with a made-up value in each slot. Where these do
not come out as the true ones do, each in its place, there is no mould, and every chunk is read by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from adapters.answer_shape import Chunk
from adapters.fold import FoldRules
from adapters.mould import CHOICES, INDEX, THE_CHOICE, Level, Mould, Path, Target, Text, Values
from adapters.raw import NULL, Fields, NotJSON, open_object, open_objects, told
from adapters.rules import First, Ignored, Last, Members, Rule
from adapters.strip import Stripper

_CHANCES: Final = 48
"""How many chunks of an answer are looked at for a mould, so that one without any costs no more than that."""
_MOULDS: Final = 4
_LARGEST: Final = 64 * 1024


class Leaf(msgspec.Struct, frozen=True):
    """A value of a chunk that is not looked into, with where it stands in the text."""

    path: Path
    raw: Raw
    start: int
    adds: bool = False
    """Whether each chunk that tells it adds to what was told before: then it is never the same thing told again."""


Layout = tuple[tuple[Path, bool], ...]
"""The paths of a chunk's leaves, and whether they are null."""


class Moulds:
    """The moulds of one answer, the one in use first."""

    def __init__(
        self,
        rules: FoldRules,
        open_chunk: Callable[[bytes], Chunk],
        stripper: Stripper,
    ) -> None:
        self._rules = rules
        self._open = open_chunk
        self._stripper = stripper
        self._chances = _CHANCES
        self._seen: dict[Layout, Sequence[Leaf]] = {}
        self._varying: dict[Layout, frozenset[Path]] = {}
        self._moulds: dict[Layout, Mould] = {}
        self.current: Mould | None = None

    def turn(self, data: bytes) -> Values | None:
        """The values of a chunk of another mould than the current one, which that becomes; None when it is of none."""
        for mould in self._moulds.values():
            if mould is not self.current and (values := mould.values(data)) is not None:
                self.current = mould
                return values
        return None

    def learn(self, data: bytes, chunk: Chunk) -> None:
        """A chunk that is of no mould so far."""
        if self._chances <= 0 or len(data) > _LARGEST or not _is_plain(chunk):
            return
        self._chances -= 1
        try:
            leaves = list(_leaves(data, self._rules))
        except ValueError:
            return
        layout = tuple((leaf.path, leaf.raw == NULL) for leaf in leaves)
        before, self._seen[layout] = self._seen.get(layout), leaves
        if before is None:
            return
        differing = {leaf.path for leaf, earlier in zip(leaves, before, strict=True) if leaf.raw != earlier.raw}
        self._varying[layout] = varying = self._varying.get(layout, frozenset()) | differing
        mould = self._mould(data, chunk, [leaf for leaf in leaves if leaf.adds or leaf.path in varying])
        self._moulds.pop(layout, None)
        if mould is not None:
            if len(self._moulds) == _MOULDS:
                del self._moulds[next(iter(self._moulds))]
            self._moulds[layout] = self.current = mould

    def _mould(self, data: bytes, chunk: Chunk, slots: Sequence[Leaf]) -> Mould | None:
        marks = [_mark(number, leaf.raw) for number, leaf in enumerate(slots)]
        if not slots or b"\n" in data or any(mark is None or mark in data for mark in marks):
            return None
        made_up = Values(Raw(mark) for mark in marks if mark is not None)
        text = _cut_out(data, slots)
        paths = tuple(leaf.path for leaf in slots)
        marked = text.of(made_up)
        true = [bytes(leaf.raw) for leaf in slots]
        try:
            opened = self._open(marked)
            if not _is_plain(opened) or _told(opened, made_up, true) != _told(chunk, (), ()):
                return None
            targets = _targets(opened, self._rules, made_up)
        except (NotJSON, _Unfoldable):
            return None
        mould = Mould(
            text,
            paths,
            self._open,
            targets=targets,
            client=self._client(chunk, data, opened, marked, made_up, true)
            if self._stripper.goes_by_layout(paths)
            else None,
        )
        if mould.values(marked) != made_up or mould.values(data) is None:
            return None
        # The lists of a root that several choices share are in the order of the chunks.
        return None if INDEX in paths and any(level == "root" for _, level, _ in targets) else mould

    def _client(
        self, chunk: Chunk, data: bytes, opened: Chunk, marked: bytes, made_up: Values, true: Sequence[bytes]
    ) -> Text | None:
        kept = self._stripper.chunk(opened, marked)
        if _filled(kept, made_up, true) != self._stripper.chunk(chunk, data):
            return None
        if not kept:
            return Text((b"",), ())
        places = sorted((kept.find(bytes(mark)), slot) for slot, mark in enumerate(made_up) if bytes(mark) in kept)
        fixed, end = [], 0
        for start, slot in places:
            fixed.append(kept[end:start])
            end = start + len(made_up[slot])
        fixed.append(kept[end:])
        fixed[0] = b"data: " + fixed[0]
        fixed[-1] += b"\n\n"
        return Text(tuple(fixed), tuple(slot for _, slot in places))


class _Unfoldable(ValueError):
    """The chunk holds a value that cannot be folded for many chunks at once."""


def _is_plain(chunk: Chunk) -> bool:
    """Whether it is of one choice that goes on, and nothing is amiss."""
    if len(chunk.choices) != 1 or chunk.odd or chunk.error is not None or "error" in chunk.root:
        return False
    return not told(chunk.choices[0].fields.get("finish_reason"))


def _leaves(data: bytes, rules: FoldRules) -> Iterator[Leaf]:
    """The values of a chunk in the order of its text. What folds member by member is looked into. Raises ValueError."""
    root = open_object(data)
    choices = open_objects(root.get(CHOICES, NULL))
    if len(choices) != 1:
        raise ValueError("not of one choice")

    def walk(path: Path, fields: Fields, inside: Members, at: int) -> Iterator[Leaf]:
        for name, raw in fields.items():
            key = msgspec.json.encode(name)
            at = data.index(key, at) + len(key)
            at = data.index(bytes(raw), at)
            here = (*path, name)
            rule = inside.rule(name)()
            if here == (CHOICES,):
                yield from walk((*here, THE_CHOICE), choices[0], Members(rules.choice), at)
            elif here == (CHOICES, THE_CHOICE, "delta") and told(raw):
                yield from walk(here, open_object(raw), Members(rules.delta), at)
            elif isinstance(rule, Members) and told(raw):
                yield from walk(here, open_object(raw), rule, at)
            else:
                yield Leaf(here, raw, at, told(raw) and not isinstance(rule, Last | First | Ignored))
            at += len(raw)

    return walk((), root, Members(rules.root), 0)


def _cut_out(data: bytes, slots: Sequence[Leaf]) -> Text:
    ends = [0, *(leaf.start + len(leaf.raw) for leaf in slots)]
    starts = [*(leaf.start for leaf in slots), len(data)]
    fixed = tuple(data[end:start] for end, start in zip(ends, starts, strict=True))
    return Text(fixed, tuple(range(len(slots))))


def _mark(number: int, raw: Raw) -> bytes | None:
    """A made-up value of the same kind that nothing else says; None for a kind that seldom differs."""
    kind = bytes(raw)[:1]
    if kind == b'"':
        return b'"<slot %d>"' % number
    if kind == b"[":
        return b'["<slot %d>"]' % number
    if kind == b"{":
        return b'{"<slot %d>":0}' % number
    return b"90071992547%05d" % number if kind in b"-0123456789" else None


def _levels(chunk: Chunk) -> dict[Level, Mapping[str, Raw]]:
    [choice] = chunk.choices
    return {"root": chunk.root, "choice": choice.fields, "delta": choice.delta or {}, "beside": choice.beside}


def _told(chunk: Chunk, made_up: Values, true: Sequence[bytes]) -> dict[Level, dict[str, bytes]]:
    """All that a chunk says, with the true values in the place of made-up ones."""
    return {
        level: {name: _filled(bytes(raw), made_up, true) for name, raw in fields.items()}
        for level, fields in _levels(chunk).items()
    }


def _filled(text: bytes, made_up: Values, true: Sequence[bytes]) -> bytes:
    for mark, value in zip(made_up, true, strict=True):
        text = text.replace(bytes(mark), value)
    return text


def _targets(opened: Chunk, rules: FoldRules, made_up: Values) -> list[Target]:
    """Where each slot's value is to be folded. Raises _Unfoldable."""
    targets: list[Target] = []
    marks = {bytes(mark): slot for slot, mark in enumerate(made_up)}
    of_level: dict[Level, Mapping[str, Rule]] = {
        "root": rules.root,
        "choice": rules.choice,
        "delta": rules.delta,
        "beside": rules.choice,
    }

    def walk(level: Level, path: Path, fields: Mapping[str, Raw], inside: Members) -> None:
        for name, raw in fields.items():
            rule = inside.rule(name)()
            if isinstance(rule, Ignored) or raw == NULL:
                continue
            if isinstance(rule, Members):
                walk(level, (*path, name), open_object(raw), rule)
            elif (slot := marks.get(bytes(raw))) is not None:
                # What counts only once is folded with the first of the chunks.
                if not rule.settled:
                    targets.append((slot, level, (*path, name)))
            elif any(mark in bytes(raw) for mark in marks) or not isinstance(rule, Last | First):
                raise _Unfoldable(name)

    for level, fields in _levels(opened).items():
        walk(level, (), fields, Members(of_level[level]))
    return targets
