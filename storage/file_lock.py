"""A lock that a SQLite file has beside it: one gateway a file, let go by the kernel when its process dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from storage.errors import AlreadyServed


class FileLock:
    """Held from its making until `release`, or until the process ends however it ends."""

    def __init__(self, database: Path) -> None:
        """Raises AlreadyServed, and OSError where the folder can't be written."""
        file = os.open(f"{database}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            holder = os.read(file, 32).decode(errors="replace").strip()
            os.close(file)
            raise AlreadyServed(
                f"{database} is already served by another gateway{f' (process {holder})' if holder else ''}. "
                "A SQLite file has one gateway: stop that one, or start this one with another --database."
            ) from exc
        os.truncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file: int | None = file

    def release(self) -> None:
        """Once is enough, and a second time does nothing: the number may be another file's by then."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
