"""How far an export is, shown on a terminal while it runs; elsewhere nothing is drawn."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TaskID, TextColumn


class Meter:
    """A bar for each partition; parts and bytes for the end."""

    def __init__(self, console: Console) -> None:
        self.parts = 0
        self._bytes = 0
        self._task: TaskID | None = None
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[size]}"))
        self._bars = Progress(*columns, console=console, disable=not console.is_terminal)

    @property
    def size(self) -> str:
        return decimal(self._bytes)

    def begin(self, folder: str, sessions: int | None) -> None:
        """The next partition, of so many sessions; null where that says little."""
        self._finish()
        self._task = self._bars.add_task(folder, total=sessions, size="")

    def advance(self, sessions: int) -> None:
        if self._task is not None:
            self._bars.advance(self._task, sessions)

    def received(self, count: int) -> None:
        self._bytes += count
        if self._task is not None:
            self._bars.update(self._task, size=self.size)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finish()
        self._bars.stop()

    def _finish(self) -> None:
        """A partition that is done is no longer shown: there may be hundreds."""
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None
