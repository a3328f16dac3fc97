"""How one field of a stream folds, chunk by chunk: the last value, the first, a joined list, a joined string, members.

Folding works on JSON text: lists and strings are joined as text, so nothing is parsed per token that is not needed, and
every number keeps its digits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Raw

from adapters.raw import NULL, Fields, NotJSON, join_object, open_object, same


class Odd(ValueError):
    """A value that cannot be folded with those before it. It is left out, and the answer is not exact."""


class Folded(Protocol):
    """One field as the chunks so far have told it. `add` is never given null; it raises Odd."""

    @property
    def settled(self) -> bool:
        """Whether nothing that comes after the first value counts."""
        ...

    def add(self, raw: Raw) -> None: ...

    def json(self) -> Raw: ...


Rule = Callable[[], Folded]


class ByColumn(ABC):
    """A field to which many chunks' values can be added at once."""

    __slots__ = ()

    @abstractmethod
    def adding(self, raws: Sequence[Raw]) -> Callable[[], None]:
        """What adds these values in one step. Raises Odd where `add` would for any of them, and then adds none."""


class Last(ByColumn):
    """The newest value that is not null."""

    __slots__ = ("_raw",)
    settled = False

    def __init__(self) -> None:
        self._raw = NULL

    def add(self, raw: Raw) -> None:
        self._raw = Raw(bytes(raw))  # A copy: a Raw keeps the whole chunk that it came in.

    def adding(self, raws: Sequence[Raw]) -> Callable[[], None]:
        return lambda: self.add(raws[-1])

    def json(self) -> Raw:
        return self._raw


class First(ByColumn):
    """The first value. What is told again is taken once; what is told again and differs is odd."""

    __slots__ = ("_raw",)
    settled = False

    def __init__(self) -> None:
        self._raw = NULL

    def add(self, raw: Raw) -> None:
        if self._raw is NULL:
            self._raw = Raw(bytes(raw))
        elif not same(self._raw, raw):
            raise Odd("told again and differs")

    def adding(self, raws: Sequence[Raw]) -> Callable[[], None]:
        for raw in raws:
            self.add(raw)  # Adds nothing: the first value was told before.
        return lambda: None

    def json(self) -> Raw:
        return self._raw


class Ignored:
    """What has its own way into the answer, or none."""

    __slots__ = ()
    settled = True

    def add(self, raw: Raw) -> None:
        pass

    def json(self) -> Raw:
        return NULL


class FirstOfAny(First):
    """The first value, whatever is said later (`id`, `created`, `model`)."""

    __slots__ = ()
    settled = True

    def add(self, raw: Raw) -> None:
        if self._raw is NULL:
            self._raw = Raw(bytes(raw))


class Joined(ByColumn):
    """A list of which each chunk brings the next part."""

    __slots__ = ("_items",)
    settled = False

    def __init__(self) -> None:
        self._items = bytearray()

    def add(self, raw: Raw) -> None:
        part = bytes(raw)
        if part[:1] != b"[":
            raise Odd("not a list")
        items = part[1:-1]
        if not items or items.isspace():
            return
        if self._items:
            self._items += b","
        self._items += items

    def adding(self, raws: Sequence[Raw]) -> Callable[[], None]:
        items = joined_items(raws)

        def add() -> None:
            if items:
                self._items += b"," + items if self._items else items

        return add

    def json(self) -> Raw:
        return Raw(b"[" + self._items + b"]")


class Text(ByColumn):
    """A string of which each chunk brings the next part."""

    __slots__ = ("_text",)
    settled = False

    def __init__(self) -> None:
        self._text = bytearray()

    def add(self, raw: Raw) -> None:
        part = bytes(raw)
        if part[:1] != b'"':
            raise Odd("not a string")
        self._text += part[1:-1]

    def adding(self, raws: Sequence[Raw]) -> Callable[[], None]:
        text = _joined_text(raws)
        return lambda: self._text.extend(text)

    def json(self) -> Raw:
        return Raw(b'"' + self._text + b'"')


class Members:
    """An object whose members each fold by a rule of their own."""

    __slots__ = ("_default", "_members", "_rules", "_settled")
    settled = False

    def __init__(self, rules: Mapping[str, Rule], default: Rule = Last) -> None:
        self._rules = rules
        self._default = default
        self._members: dict[str, Folded] = {}
        self._settled: set[str] = set()

    def add(self, raw: Raw) -> None:
        try:
            fields = open_object(raw)
        except NotJSON:
            raise Odd("not an object") from None
        if odd := self.add_fields(fields):
            raise Odd("; ".join(odd))

    def add_fields(self, fields: Mapping[str, Raw]) -> Sequence[str]:
        """Folds each member; gives the oddities."""
        members, settled = self._members, self._settled
        odd: list[str] | None = None
        for name, raw in fields.items():
            if name in settled or raw == NULL:
                continue
            member = members.get(name)
            try:
                if member is not None:
                    member.add(raw)
                    continue
                member = self._rules.get(name, self._default)()
                member.add(raw)  # Before it counts as told: an empty list is not what an odd value says.
                members[name] = member
                if member.settled:
                    settled.add(name)
            except Odd as exc:
                odd = odd or []
                odd.append(f"{name[:64]}: {exc}")
        return odd or ()

    def member(self, name: str) -> Folded | None:
        """One member as it was told so far."""
        return self._members.get(name)

    def told(self, name: str) -> bool:
        return name in self._members

    def fields(self) -> Fields:
        return {name: member.json() for name, member in self._members.items()}

    def json(self) -> Raw:
        return Raw(join_object(self.fields()))


def members(rules: Mapping[str, Rule], default: Rule = Last) -> Rule:
    """The rule for an object whose members have rules of their own."""
    return lambda: Members(rules, default)


# Stands between values that are joined: JSON holds no such byte, for in strings it is escaped.
_SEAM: Final = b"\x00"


def joined_items(raws: Sequence[Raw]) -> bytes:
    """The items of many lists as those of one. Raises Odd."""
    joined = _SEAM.join(raws)
    lists = joined[1:-1].split(b"]" + _SEAM + b"[")
    if len(lists) != len(raws) or joined[:1] != b"[" or joined[-1:] != b"]":
        raise Odd("not a list")
    if min(lists)[:1] <= b" ":  # Some are empty, or begin with white space.
        lists = [items for items in lists if items.strip()]
    return b",".join(lists)


def _joined_text(raws: Sequence[Raw]) -> bytes:
    """The characters of many strings as those of one. Raises Odd."""
    joined = _SEAM.join(raws)
    text = joined[1:-1].replace(b'"' + _SEAM + b'"', b"")
    if _SEAM in text or joined[:1] != b'"' or joined[-1:] != b'"':
        raise Odd("not a string")
    return text
