"""The spool's folder: a sub-folder for each gateway process, locked while that lives, and what dead ones left.

    rollouts.db-spool/
        0192f0…/            a process's own: `lock` and 000001.spool, 000002.spool …
        refused/            what no database took, for a person to look at

Nobody but the owner may look in, for requests are in it. No name in it comes from a request.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from storage.errors import CannotOpen
from storage.ids import new_id
from storage.spool.segment import SUFFIX, Segment

REFUSED: Final = "refused"
_LOCK: Final = "lock"
_MODE: Final = 0o700
_NO_GATEWAY: Final = ""


class SpoolFolder:
    """One process's sub-folder, from its making or its adoption until `close`, or until the process ends."""

    def __init__(self, path: Path, lock: int, gateway_id: str) -> None:
        self.path = path
        self.gateway_id = gateway_id
        """Of the gateway whose it is or was; empty where nobody knows."""
        self._lock = lock
        self._last = 0

    @classmethod
    def create(cls, root: Path, gateway_id: str) -> Self:
        """Raises CannotOpen where there can be none."""
        name = new_id()
        hidden = root / f".{name}"
        try:
            root.mkdir(mode=_MODE, exist_ok=True)
            hidden.mkdir(mode=_MODE)
            lock = _locked(hidden)
            assert lock is not None, "nobody knows its name yet"
            os.pwrite(lock, f"{gateway_id}\n{os.getpid()}\n".encode(), 0)
            # From here on others see it, locked.
            hidden.rename(root / name)
        except OSError as exc:
            raise CannotOpen(
                f"the spool folder {root} can't be written: {exc.strerror or exc}. It keeps traces while the database "
                "is away; make it writable, or name another with --spool"
            ) from exc
        return cls(root / name, lock, gateway_id)

    @classmethod
    def adopt(cls, path: Path) -> Self | None:
        """One that a process left. None: the process lives. Raises OSError."""
        lock = _locked(path)
        if lock is None:
            return None
        gateway_id, _, _ = os.pread(lock, 256, 0).decode(errors="replace").partition("\n")
        return cls(path, lock, gateway_id)

    def new_path(self) -> Path:
        """For the next segment."""
        self._last += 1
        return self.path / f"{self._last:06}{SUFFIX}"

    def segments(self) -> Iterator[Segment]:
        """Those that were left, in their order. Raises OSError."""
        for path in sorted(self.path.glob(f"*{SUFFIX}")):
            segment = Segment.open(path)
            if segment is None:
                path.unlink()
            else:
                yield segment

    def close(self) -> None:
        """It is removed if nothing is in it."""
        if not any(self.path.glob(f"*{SUFFIX}")):
            with suppress(OSError):
                (self.path / _LOCK).unlink(missing_ok=True)
                self.path.rmdir()
        os.close(self._lock)


def adopted(root: Path) -> Iterator[SpoolFolder]:
    """What processes that live no more left in this folder, the oldest first. Raises OSError."""
    for path in sorted(root.iterdir()):
        if path.is_dir() and path.name != REFUSED and not path.name.startswith("."):
            folder = SpoolFolder.adopt(path)
            if folder is not None:
                yield folder


def refused_folder(root: Path) -> Path:
    """Raises OSError."""
    path = root / REFUSED
    path.mkdir(mode=_MODE, exist_ok=True)
    return path


def room(root: Path, most: int) -> int:
    """How large a segment may be: an eighth of what the whole file system has, so that a small one has room for two."""
    found = os.statvfs(root)
    return min(most, found.f_frsize * found.f_blocks // 8)


def _locked(folder: Path) -> int | None:
    """None: it is somebody else's. The kernel lets go of it when its process ends, however that ends."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
