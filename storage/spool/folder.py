"""The spool's folder: a sub-folder for each gateway process, locked while that lives, and what dead ones left.

    rollouts.db-spool/
        0192f0…/            a process's own: `lock` and 000001.spool, 000002.spool …
        refused/            what no database took or nobody can read, for a person to look at

Nobody but the owner may look in, for requests are in it. No name in it comes from a request.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import msgspec

from storage.errors import CannotOpen
from storage.files import is_at
from storage.ids import new_id
from storage.spool.segment import SUFFIX, sync_folder

REFUSED: Final = "refused"
_LOCK: Final = "lock"
_MODE: Final = 0o700
_OWNER_BYTES: Final = 16 * 1024
_TRIES: Final = 10
_NUMBER: Final = re.compile(r"(?<=-)\d+(?=-|$)")
_TRIED: Final = re.compile(rf"^({REFUSED}-)+")
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a sub-folder is: a gateway's, for one database."""

    gateway_id: str
    database: str


NOBODY: Final = Owner("", "")


class SpoolFolder:
    """One process's sub-folder, from its making or its adoption until `close`, or until the process ends."""

    def __init__(self, path: Path, lock: int, owner: Owner) -> None:
        self.path = path
        self.owner = owner
        self._lock: int | None = lock
        self._last = 0

    @classmethod
    def create(cls, root: Path, owner: Owner) -> Self:
        """Raises CannotOpen where there can be none."""
        name = new_id()
        hidden = root / f".{name}"
        try:
            _make(root, hidden)
            lock = _locked(hidden)
            assert lock is not None, "nobody knows its name yet"
            _sign(lock, owner)
            # From here on others see it, locked.
            hidden.rename(root / name)
            sync_folder(root)
        except OSError as exc:
            raise CannotOpen(
                f"the spool folder {root} can't be written: {exc.strerror or exc}. It keeps traces while the database "
                "is away; make it writable, or name another with --spool"
            ) from exc
        return cls(root / name, lock, owner)

    @classmethod
    def adopt(cls, path: Path) -> Self | None:
        """One that a process left. None: the process lives. Raises OSError."""
        lock = _locked(path)
        if lock is None:
            return None
        try:
            owner = msgspec.json.decode(os.pread(lock, _OWNER_BYTES, 0), type=Owner)
        except msgspec.MsgspecError:
            owner = NOBODY
        return cls(path, lock, owner)

    def restore(self) -> bool:
        """Make it anew where somebody has removed it. Whether that was so. Raises OSError."""
        assert self._lock is not None, "it is not closed"
        if is_at(self.path / _LOCK, os.fstat(self._lock)):
            return False
        with suppress(FileExistsError):
            _make(self.path.parent, self.path)
        lock = _locked(self.path)
        if lock is None:  # Another gateway has just begun, and looks whether something was left there.
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(self.path / _LOCK))
        os.close(self._lock)
        self._lock = lock
        _sign(lock, self.owner)
        sync_folder(self.path.parent)
        return True

    def new_path(self) -> Path:
        """For the next segment."""
        self._last += 1
        return self.path / f"{self._last:06}{SUFFIX}"

    def files(self) -> list[Path]:
        """Those that were left, in their order. Raises OSError."""
        return sorted(self.path.glob(f"*{SUFFIX}"), key=_by_numbers)

    def close(self) -> None:
        """It is removed if nothing is in it. A second time does nothing."""
        if self._lock is None:
            return
        if self.path.name == REFUSED or not any(self.path.glob(f"*{SUFFIX}")):
            with suppress(OSError):
                (self.path / _LOCK).unlink(missing_ok=True)
                self.path.rmdir()
                self.path.parent.rmdir()
        os.close(self._lock)
        self._lock = None


def adopted(root: Path, database: str, *, takes_unowned: bool) -> Iterator[SpoolFolder]:
    """What processes that live no more left in this folder for this database, the oldest first. Raises OSError."""
    for path in sorted(root.iterdir()):
        if is_left(path):
            folder = SpoolFolder.adopt(path)
            if folder is None:
                continue
            if folder.owner.database == database or (takes_unowned and folder.owner == NOBODY):
                yield folder
            else:
                folder.close()
                _log.warning(
                    "%s has what was kept for %s, not for this gateway's database (%s), and stays. Start a gateway on "
                    "that one, or bring it in: rollout-gateway db import-spool %s --database URL",
                    path,
                    folder.owner.database or "a database that it does not name",
                    database,
                    path,
                )


def is_left(path: Path) -> bool:
    """Whether it is some process's sub-folder."""
    return (path / _LOCK).is_file() and path.name != REFUSED and not path.name.startswith(".")


def refused_folder(root: Path) -> Path:
    """Raises OSError."""
    path = root / REFUSED
    path.mkdir(mode=_MODE, exist_ok=True)
    return path


def room(root: Path, most: int) -> int:
    """How large a segment may be: an eighth of what the whole file system has, so that a small one has room for two."""
    found = os.statvfs(root)
    return min(most, found.f_frsize * found.f_blocks // 8)


def _make(root: Path, own: Path) -> None:
    """Raises OSError."""
    for _ in range(_TRIES):
        root.mkdir(mode=_MODE, exist_ok=True)
        with suppress(FileNotFoundError):  # Another process has ended, and removed it as empty.
            return own.mkdir(mode=_MODE)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(root))


def _by_numbers(path: Path) -> str:
    """Sorts as the numbers in its name do. Versions before did not pad them, and gave a file more with each try."""
    return _NUMBER.sub(lambda found: found[0].zfill(12), _TRIED.sub("", path.stem))


def _sign(lock: int, owner: Owner) -> None:
    """Raises OSError."""
    os.pwrite(lock, msgspec.json.encode(owner), 0)
    os.fsync(lock)


def _locked(folder: Path) -> int | None:
    """None: it is somebody else's. The kernel lets go of it when its process ends, however that ends."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
