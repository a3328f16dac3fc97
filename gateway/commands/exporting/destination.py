"""The place that files are written to, by fsspec: each stands under its name whole, or not at all."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final, Protocol, Self

from gateway.commands.errors import CommandFailed

# What is put there is seen when all of it is there; moving would be a copy.
_OBJECT_STORES: Final = frozenset(("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "r2", "hf"))


class _FileSystem(Protocol):
    """What is used of fsspec's AbstractFileSystem, which has no types."""

    protocol: str | tuple[str, ...]

    def cat_file(self, path: str) -> bytes: ...
    def glob(self, path: str) -> list[str]: ...
    def makedirs(self, path: str, exist_ok: bool) -> None: ...
    def put_file(self, local: str, path: str, /) -> None: ...
    def mv(self, path: str, to: str, /) -> None: ...


class CannotWrite(CommandFailed):
    """The destination does not take files; the message says why."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A folder of some file system. Its methods raise CannotWrite."""

    url: str
    _files: _FileSystem
    _root: str

    @classmethod
    def of(cls, url: str) -> Self:
        """A path of this machine, or a URL that fsspec knows."""
        if not url:
            raise CannotWrite("the destination is empty: name a folder, or . for this one")
        try:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped]
        except ImportError as exc:
            raise CannotWrite('export needs fsspec: pip install "rollout-gateway[export]"') from exc
        try:
            files, root = url_to_fs(url)
        except Exception as exc:  # A protocol that is unknown, needs a package of its own, or gets no connection.
            raise CannotWrite(f"{url} can't be written to: {exc}") from exc
        return cls(url, files, root.rstrip("/") or "/")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other export of this machine writes there meanwhile: two would each count the other's parts as its own.

        Of what is no folder of this machine nothing can be held.
        """
        if not self._local:
            yield
            return
        root = Path(self._root)
        with self._told("can't be written"):
            is_new = not root.exists()
            root.mkdir(parents=True, exist_ok=True)
            folder = os.open(root, os.O_RDONLY)
        try:
            _hold(folder, self.url)
            yield
        finally:
            os.close(folder)
            if is_new:
                with suppress(OSError):  # It has files, or else is left as it was found: not there.
                    root.rmdir()

    def read(self, name: str) -> bytes | None:
        """None where there is no such file."""
        with self._told(f"{name} can't be read"):
            try:
                return bytes(self._files.cat_file(self._path(name)))
            except FileNotFoundError:
                return None

    def has(self, pattern: str) -> bool:
        with self._told("can't be listed"):
            return bool(self._files.glob(self._path(pattern)))

    def write(self, name: str, content: bytes) -> None:
        with self.writing(name) as file:
            file.write(content)

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """A file that gets its name when all went well, in place of an older one."""
        with self._locally(name) if self._local else self._elsewhere(name) as file:
            yield file

    @contextmanager
    def _locally(self, name: str) -> Iterator[IO[bytes]]:
        path = Path(self._path(name))
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as exc:
            raise CannotWrite(f"{self.url}: {name} can't be written: {exc}") from exc
        finally:
            with suppress(OSError):
                temporary.unlink()

    @contextmanager
    def _elsewhere(self, name: str) -> Iterator[IO[bytes]]:
        try:
            with tempfile.NamedTemporaryFile() as file:
                yield file
                file.flush()
                with self._told(f"{name} can't be written"):
                    self._put(file.name, PurePosixPath(self._path(name)))
        except OSError as exc:
            raise CannotWrite(
                f"{self.url}: {name} is made in {tempfile.gettempdir()} first, and can't be: {exc}"
            ) from exc

    def _put(self, local: str, path: PurePosixPath) -> None:
        self._files.makedirs(str(path.parent), exist_ok=True)
        if self._protocols & _OBJECT_STORES:
            self._files.put_file(local, str(path))
            return
        temporary = str(path.with_name(f".{path.name}.tmp"))
        self._files.put_file(local, temporary)
        self._files.mv(temporary, str(path))

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as exc:  # Each file system has errors of its own; no key, no bucket, no network.
            raise CannotWrite(f"{self.url}: {what}: {exc}") from exc

    @property
    def _local(self) -> bool:
        return "file" in self._protocols

    @property
    def _protocols(self) -> frozenset[str]:
        told = self._files.protocol
        return frozenset((told,) if isinstance(told, str) else told)

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"


def _hold(folder: int, url: str) -> None:
    """Until it is closed, or its process dies."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        raise CannotWrite(f"{url}: another export is writing there; run this one when it has ended") from exc
    except OSError:
        pass  # A network's file system that knows no locks.
