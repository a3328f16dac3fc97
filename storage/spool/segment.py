"""One file of a spool: allocated whole before it is used, so that a full disk can't cut short what goes on in it."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from storage.files import is_at
from storage.spool.frames import (
    FRAME_SIZE,
    HEADER_SIZE,
    MARK_SIZE,
    Damage,
    Frame,
    damage_behind,
    frame,
    frames,
    header,
    mark_of,
)

SUFFIX: Final = ".spool"
_ZEROS: Final = bytes(1 << 20)


class Segment:
    """Appended to by one thread and read by one other, up to what is durable."""

    def __init__(self, path: Path, file: int, mark: bytes, size: int, durable: int) -> None:
        self.path = path
        self.sealed = False
        """Whether nothing more is appended."""
        self.durable = durable
        """Where the last record ends that nothing can tear any more."""
        self.damaged = False
        """Whether it has to be kept, for somebody to look at."""
        self._file = file
        self._mark = mark
        self._size = size
        self._end = durable

    @classmethod
    def create(cls, path: Path, size: int) -> Segment:
        """Raises OSError where there is no room, and leaves nothing then."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        mark = secrets.token_bytes(MARK_SIZE)
        try:
            _allocate(file, size)
            os.pwrite(file, header(mark), 0)
            os.fsync(file)
            sync_folder(path.parent)
        except BaseException:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        return cls(path, file, mark, size, HEADER_SIZE)

    @classmethod
    def open(cls, path: Path) -> Segment | None:
        """One that a process left, to be read. None: it does not begin as one does. Raises OSError."""
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        size = os.fstat(file).st_size
        mark = mark_of(os.pread(file, HEADER_SIZE, 0))
        if mark is None:
            os.close(file)
            return None
        segment = cls(path, file, mark, size, size)
        segment.sealed = True
        return segment

    @classmethod
    def write(cls, path: Path, body: bytes) -> None:
        """A file with one record. Raises OSError."""
        segment = cls.create(path, HEADER_SIZE + FRAME_SIZE + len(body))
        try:
            segment.append(segment.framed(body))
            segment.sync(to_disk=True)
        finally:
            segment.close()

    @property
    def is_in_place(self) -> bool:
        """Whether a start after a kill would find it: nobody has removed it, or its folder."""
        return is_at(self.path, os.fstat(self._file))

    def has_room(self, size: int) -> bool:
        return self._end + size <= self._size

    def framed(self, body: bytes) -> bytes:
        return frame(self._mark, body)

    def append(self, data: bytes) -> None:
        """Frames, which are safe after the next `sync`. Raises OSError."""
        view, end = memoryview(data), self._end
        while view:
            written = os.pwrite(self._file, view, end)
            end += written
            view = view[written:]
        self._end = end

    def sync(self, *, to_disk: bool) -> None:
        """What was appended is durable from here on. Raises OSError, also where the file was removed meanwhile."""
        if to_disk:
            _sync(self._file)
        if not self.is_in_place:
            raise FileNotFoundError(errno.ENOENT, "it was removed", str(self.path))
        self.durable = self._end

    def seal(self) -> None:
        """What was appended since the last `sync` is as if it had not been."""
        self._end = self._size = self.durable
        self.sealed = True

    def read(self, start: int) -> Iterator[Frame | Damage]:
        """What is durable from `start` on; it is in memory until the iterator is gone. Raises OSError."""
        return frames(self._mark, _pread(self._file, self.durable - start, start), start)

    def cut(self, end: int) -> None:
        """What a kill tore behind the last whole record is as if it had not been. Raises OSError."""
        rest = _pread(self._file, self.durable - end, end)
        self.durable = end + damage_behind(self._mark, rest, end)

    def close(self) -> None:
        os.close(self._file)

    def remove(self) -> None:
        """Raises OSError."""
        self.close()
        self.path.unlink(missing_ok=True)

    def put_aside(self, folder: Path) -> None:
        """Raises OSError."""
        self.close()
        put_aside(self.path, folder)


def put_aside(path: Path, folder: Path) -> Path:
    """Where it is now: as it was if it was there already. Overwrites nothing. Raises OSError."""
    if path.parent == folder:
        return path
    aside = folder / f"{path.parent.name}-{path.name}"
    while aside.exists():
        aside = aside.with_name(f"{aside.stem}-again{SUFFIX}")
    path.rename(aside)
    return aside


def is_blank(path: Path) -> bool:
    """Whether it has nothing but zeros, as a file has whose making was cut short. Raises OSError."""
    with path.open("rb") as file:
        return not any(part.strip(b"\0") for part in iter(partial(file.read, len(_ZEROS)), b""))


def sync_folder(path: Path) -> None:
    """A file that was made or renamed is found after a loss of power. Raises OSError."""
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _sync(file: int) -> None:
    sync = os.fdatasync if hasattr(os, "fdatasync") else os.fsync  # macOS has neither this nor `posix_fallocate`.
    sync(file)


def _allocate(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    for start in range(0, size, len(_ZEROS)):
        os.pwrite(file, _ZEROS[: size - start], start)


def _pread(file: int, size: int, start: int) -> bytes:
    parts: list[bytes] = []
    while size > 0 and (part := os.pread(file, size, start)):
        parts.append(part)
        size -= len(part)
        start += len(part)
    return b"".join(parts)
