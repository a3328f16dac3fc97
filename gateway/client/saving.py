"""An export on its way to disk: a file of that name is always a whole one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import BinaryIO, Protocol


class Writable(Protocol):
    """A file that is open for bytes."""

    def write(self, data: bytes, /) -> object: ...


@contextmanager
def saving(to: str | PathLike[str] | Writable) -> Iterator[BinaryIO | Writable]:
    """Where to write. What breaks off leaves nothing under the name that was asked for."""
    if not isinstance(to, str | PathLike):
        yield to
        return
    path = Path(to)
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
