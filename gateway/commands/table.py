"""A list as a person or a pipe can use it: a line an item, and every value whole, so that an id can be copied."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console

_GAP: Final = 2


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Where the room is short the lower ranks have it first; rank 0 stands always."""

    name: str
    rank: int
    values: tuple[str | None, ...]

    @property
    def cells(self) -> list[str]:
        return [self.name, *(printable(value or "") for value in self.values)]

    @property
    def width(self) -> int:
        return max(map(cell_len, self.cells))


def show(console: Console, columns: Sequence[Column]) -> tuple[str, ...]:
    """Aligned on a terminal, tab-separated elsewhere. Returns the names of the columns that had no room."""
    if not console.is_terminal:
        for cells in zip(*(column.cells for column in columns), strict=True):
            console.file.write("\t".join(cells) + "\n")  # rich would make spaces of the tabs.
        return ()
    shown = _fitting(columns, console.width)
    header, *lines = zip(*(_padded(column) for column in columns if column.name in shown), strict=True)
    console.out(_line(header), style="bold", highlight=False)
    for cells in lines:
        console.out(_line(cells), highlight=False)
    return tuple(column.name for column in columns if column.name not in shown)


def _fitting(columns: Sequence[Column], room: int) -> frozenset[str]:
    shown = set()
    for column in sorted(columns, key=lambda column: column.rank):
        if column.rank == 0 or column.width <= room:
            shown.add(column.name)
            room -= column.width + _GAP
    return frozenset(shown)


def _padded(column: Column) -> list[str]:
    width = column.width
    return [cell + " " * (width - cell_len(cell)) for cell in column.cells]


def _line(cells: Sequence[str]) -> str:
    return (" " * _GAP).join(cells).rstrip()


def printable(value: str) -> str:
    """Labels are whatever somebody wrote: a line end or an escape sequence would break the line, or the terminal."""
    return "".join(char if _is_text(char) else "\N{REPLACEMENT CHARACTER}" for char in value)


def _is_text(char: str) -> bool:
    """Of white space Python calls the plain blank alone printable."""
    return char.isprintable() or unicodedata.category(char) == "Zs"
