"""What the places of an engine want of one member of a choice, such as `logprobs`: decoded together, in one pass.

To skip text costs a decoder nearly what it costs to build values of it. So a member of 20 KB is not opened, searched
and decoded for each place by itself: it is decoded once, as the columns that all of them want and it can have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from adapters.places import Place, Source
from adapters.raw import REFUSALS

Column = tuple[str, str | int | None]
"""A list of the member, and which part of its items; null where these are wanted whole."""
Columns = Mapping[Column, list[Any]]
Read = tuple[Raw, Columns]
"""What was read, and the columns of it."""

# What is taken of a row. The names are written out, for to look one up in each row takes twice as long.
_CELLS: Final[Mapping[str, Callable[[list[Any]], list[Any]]]] = {
    "first": lambda rows: [row.first for row in rows],
    "second": lambda rows: [row.second for row in rows],
    "third": lambda rows: [row.third for row in rows],
}


class Table:
    """How one member is read."""

    __slots__ = ("_hinted", "_lists", "_readers")

    def __init__(self, lists: Mapping[str, Sequence[str]], clues: Mapping[Column, bytes]) -> None:
        """By the name of each list the members of its items that are wanted; none where the items are the values.

        A column with a clue is not looked for in a text that has the clue nowhere.
        """
        self._lists = lists
        self._hinted: dict[bytes, list[Column]] = {}
        for column, clue in clues.items():
            self._hinted.setdefault(clue, []).append(column)
        self._readers: dict[tuple[bytes, ...], _Reader] = {}

    def read(self, raw: Raw) -> Columns | None:
        """Each column that was told; None where anything is not as it should be: what, the places tell one by one."""
        text = bytes(raw)
        missing = tuple([clue for clue in self._hinted if clue not in text])
        reader = self._readers.get(missing)
        if reader is None:
            untold = chain.from_iterable(self._hinted[clue] for clue in missing)
            reader = self._readers[missing] = _Reader(self._lists, frozenset(untold))
        return reader.read(text)


class _Reader:
    """Decodes a member as all columns but those that it can't have."""

    __slots__ = ("_columns", "_decode")

    def __init__(self, lists: Mapping[str, Sequence[str]], untold: Set[Column]) -> None:
        fields: list[tuple[str, Any, None]] = []
        names: dict[str, str] = {}
        self._columns: list[tuple[Column, str, Callable[[list[Any]], list[Any]]]] = []
        for number, (name, members) in enumerate(lists.items()):
            attribute = f"list_{number}"
            named = dict(zip(_CELLS, (each for each in members if (name, each) not in untold), strict=False))
            row: Any = Any
            if named:
                row = msgspec.defstruct("Row", [(cell, Any, UNSET) for cell in named], rename=named, gc=False)
                self._columns += [((name, member), attribute, _CELLS[cell]) for cell, member in named.items()]
            elif not members and (name, None) not in untold:
                self._columns.append(((name, None), attribute, list))
            else:
                continue
            fields.append((attribute, list[row] | None, None))
            names[attribute] = name
        self._decode = msgspec.json.Decoder(msgspec.defstruct("Table", fields, rename=names, gc=False)).decode

    def read(self, text: bytes) -> Columns | None:
        try:
            table = self._decode(text)
        except REFUSALS:
            return None
        told: dict[Column, list[Any]] = {}
        for column, attribute, cells_of in self._columns:
            items = getattr(table, attribute)
            if items is None:
                continue
            cells = cells_of(items)
            if not cells or cells[0] is not UNSET or cells.count(UNSET) < len(cells):
                told[column] = cells
        return told


def tables_of(sources: Iterable[Source]) -> Mapping[str, Table]:
    """A table for each member of a choice of which only lists are wanted, of values or of objects."""
    wanted: dict[str, list[Place]] = {}
    clues: dict[str, dict[Column, bytes]] = {}
    for source in sources:
        for place in (source.token_ids, *source.logprobs):
            if place.at != "choice" or len(place.path) < 2:
                continue
            wanted.setdefault(place.path[0], []).append(place)
            # Most answers name no ids here. An empty list of logprobs is one, and would have no clue.
            if place is source.token_ids and place.clue is not None:
                clues.setdefault(place.path[0], {})[place.path[-1], place.column] = place.clue
    return {
        member: Table(lists, clues.get(member, {}))
        for member, places in wanted.items()
        if (lists := _lists(places)) is not None
    }


def _lists(places: Iterable[Place]) -> Mapping[str, Sequence[str]] | None:
    """The lists that these places are, each with the members of its items; None where one is anything else."""
    lists: dict[str, list[str | None]] = {}
    for place in places:
        if len(place.path) != 2 or place.by_choice or isinstance(place.column, int):
            return None
        members = lists.setdefault(place.path[1], [])
        if place.column not in members:
            members.append(place.column)
    if any(len(members) > len(_CELLS) or (None in members and len(members) > 1) for members in lists.values()):
        return None
    return {name: [member for member in members if member is not None] for name, members in lists.items()}
