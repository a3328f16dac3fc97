"""An export on its way to disk: a file of that name is always a whole one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import BinaryIO, Final, Protocol
from uuid import uuid4

NEXT_CURSOR: Final = "x-next-cursor"
PART: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    size: int
    """In bytes."""
    cursor: str | None
    """Of a part (`limit`): where the next one goes on; null where nothing is left."""


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
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")  # Of this writer alone: all ranks may run the same lines.
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
