"""What the places of an engine want of one member of a choice, such as `logprobs`: decoded together, in one pass.

To skip text costs a decoder nearly what it costs to build values of it. So a member of 20 KB is not opened, searched
and decoded for each place by itself: it is decoded once, as the columns that all of them want.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from adapters.places import Place, Source
from adapters.raw import REFUSALS

Column = tuple[str, str | int | None]
"""A list of the member, and which part of its items; null where these are wanted whole."""
Columns = Mapping[Column, list[Any]]

# What is taken of a row. The names are written out, for to look one up in each row takes twice as long.
_CELLS: Final[Mapping[str, Callable[[list[Any]], list[Any]]]] = {
    "first": lambda rows: [row.first for row in rows],
    "second": lambda rows: [row.second for row in rows],
    "third": lambda rows: [row.third for row in rows],
}


class Table:
    """How one member is read."""

    __slots__ = ("_columns", "_decode")

    def __init__(self, lists: Mapping[str, Sequence[str]]) -> None:
        """By the name of each list the members of its items that are wanted; none where the items are the values."""
        fields: list[tuple[str, Any, None]] = []
        self._columns: list[tuple[Column, str, Callable[[list[Any]], list[Any]]]] = []
        for number, (name, members) in enumerate(lists.items()):
            attribute = f"list_{number}"
            named = dict(zip(_CELLS, members, strict=False))
            row = msgspec.defstruct("Row", [(cell, Any, UNSET) for cell in named], rename=named, gc=False)
            fields.append((attribute, list[row if named else Any] | None, None))  # type: ignore[misc]
            self._columns += [((name, member), attribute, _CELLS[cell]) for cell, member in named.items()]
            if not named:
                self._columns.append(((name, None), attribute, list))
        renamed = dict(zip([field[0] for field in fields], lists, strict=True))
        self._decode = msgspec.json.Decoder(msgspec.defstruct("Table", fields, rename=renamed, gc=False)).decode

    def read(self, raw: Raw) -> Columns | None:
        """Each column that was told; None where anything is not as it should be: what, the places tell one by one."""
        try:
            table = self._decode(raw)
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
    for source in sources:
        for place in (source.token_ids, *source.logprobs):
            if place.at == "choice" and len(place.path) > 1:
                wanted.setdefault(place.path[0], []).append(place)
    return {member: Table(lists) for member, places in wanted.items() if (lists := _lists(places)) is not None}


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
