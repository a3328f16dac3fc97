"""A lock that a SQLite file has beside it: one gateway a file, let go by the kernel when its process dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from storage.errors import AlreadyServed
from storage.files import is_at


class FileLock:
    """Held from its making until `release`, or until the process ends however it ends."""

    def __init__(self, database: Path) -> None:
        """One for all links to the file. Raises AlreadyServed, and OSError where the folder can't be written."""
        self._database: Final = database
        self._place: Final = Path(f"{database.resolve()}.lock")
        self._file: int | None = self._take()

    def hold(self) -> None:
        """Take it anew where somebody has removed it. Raises as its making, where another gateway was quicker."""
        if self._file is not None and not is_at(self._place, os.fstat(self._file)):
            file = self._take()
            self.release()
            self._file = file

    def release(self) -> None:
        """Once is enough, and a second time does nothing: the number may be another file's by then."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _take(self) -> int:
        file = os.open(self._place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 32).decode(errors="replace").strip()
            os.close(file)
            raise AlreadyServed(
                f"{self._database} is already served by another gateway{f' (process {holder})' if holder else ''}. "
                "A SQLite file has one gateway: stop that one, or start this one with another --database."
            ) from None
        os.truncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        return file
