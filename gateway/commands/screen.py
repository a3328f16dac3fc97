"""Where a command shows what it has read: lines, tables, JSON, and notes that are no part of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import msgspec
from rich.console import Console

from gateway.commands import table
from gateway.commands.table import Column


@dataclass(frozen=True, slots=True)
class Screen:
    console: Console
    notes: Console
    """For what is said about a list and is no line of it."""
    as_json: bool = False
    """Whether the answer's own JSON is wanted in place of lines and tables."""

    @classmethod
    def standard(cls, *, as_json: bool) -> Self:
        """Notes go where errors go, so that a pipe gets the list alone."""
        return cls(Console(), Console(stderr=True), as_json)

    def line(self, text: str) -> None:
        self.console.out(text, highlight=False)

    def json(self, body: bytes) -> None:
        self.line(msgspec.json.format(body, indent=2).decode())

    def table(self, columns: Sequence[Column]) -> None:
        left_out = table.show(self.console, columns)
        if left_out:
            self.note(f"No room for: {', '.join(left_out)}. A wider window, a pipe and --json have them.")

    def note(self, text: str) -> None:
        self.notes.out(text, highlight=False)

    def note_incomplete(self, *, complete: bool) -> None:
        """Of a list's `complete`."""
        if not complete:
            self.note("Not complete yet: a gateway still has traces in its spool.")
