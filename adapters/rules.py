"""How one field of a stream folds, chunk by chunk: the last value, the first, a joined list, a joined string, members.

Folding works on JSON text: lists and strings are joined as text, so nothing is parsed per token that is not needed, and
every number keeps its digits.
"""

from __future__ import annotations

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


class Last:
    """The newest value that is not null."""

    __slots__ = ("_raw",)
    settled = False

    def __init__(self) -> None:
        self._raw = NULL

    def add(self, raw: Raw) -> None:
        self._raw = Raw(bytes(raw))  # A copy: a Raw keeps the whole chunk that it came in.

    def json(self) -> Raw:
        return self._raw


class First:
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


# Stands between values that are joined: JSON holds no such byte outside a string, nor inside one unescaped.
_SEAM: Final = b"\x00"


class Joined:
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

    def extend(self, raws: Sequence[Raw]) -> None:
        """Many parts at once. Raises Odd, with nothing added, when any of them is not a list."""
        joined = _SEAM.join(raws)
        lists = joined[1:-1].split(b"]" + _SEAM + b"[")
        if len(lists) != len(raws) or joined.count(_SEAM) != len(raws) - 1 or joined[:1] != b"[" or joined[-1:] != b"]":
            raise Odd("not a list")
        items = b",".join([items for items in lists if items.strip()])
        if items:
            self._items += (b"," if self._items else b"") + items

    def json(self) -> Raw:
        return Raw(b"[" + self._items + b"]")


class Text:
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

    def extend(self, raws: Sequence[Raw]) -> None:
        """Many parts at once. Raises Odd, with nothing added, when any of them is not a string."""
        joined = _SEAM.join(raws)
        seam = b'"' + _SEAM + b'"'
        seams = len(raws) - 1
        if joined.count(seam) != seams or joined.count(_SEAM) != seams or not joined[:1] == joined[-1:] == b'"':
            raise Odd("not a string")
        self._text += joined[1:-1].replace(seam, b"")

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

    def extend(self, path: Sequence[str], raws: Sequence[Raw]) -> Sequence[str]:
        """Many values of one member, none of them null; gives the oddities. Raises KeyError if it was never told."""
        name, *inner = path
        member = self._members[name]
        if inner:
            if not isinstance(member, Members):
                raise KeyError(name)
            return [f"{name[:64]}: {odd}" for odd in member.extend(inner, raws)]
        if isinstance(member, Last):
            raws = raws[-1:]
        elif isinstance(member, Text | Joined):
            try:
                member.extend(raws)
                return ()
            except Odd:
                pass  # One of them is: the others count.
        return [odd for raw in raws for odd in self.add_fields({name: raw})]

    def has(self, path: Sequence[str]) -> bool:
        """Whether the member at this path has been told."""
        name, *inner = path
        member = self._members.get(name)
        return member is not None if not inner else isinstance(member, Members) and member.has(inner)

    def rule(self, name: str) -> Rule:
        return self._rules.get(name, self._default)

    def told(self, name: str) -> bool:
        return name in self._members

    def fields(self) -> Fields:
        return {name: member.json() for name, member in self._members.items()}

    def json(self) -> Raw:
        return Raw(join_object(self.fields()))


def members(rules: Mapping[str, Rule], default: Rule = Last) -> Rule:
    """The rule for an object whose members have rules of their own."""
    return lambda: Members(rules, default)
