"""Where a gateway listens: its sockets, its address, and the file that says so to whoever waits."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gateway.commands.errors import CommandFailed
from gateway.settings import Settings

BACKLOG = 2048
_ADVICE: Final = {
    errno.EADDRINUSE: "; --port 0 takes any free one",
    errno.EADDRNOTAVAIL: "; no interface of this machine has that address",
}


class CannotServe(CommandFailed):
    """The gateway did not start; the message says why and what would do."""


@contextmanager
def announced(
    settings: Settings, *, ready_file: Path | None, announce: Callable[[Settings, str], None]
) -> Iterator[tuple[list[socket.socket], Callable[[], None]]]:
    """Listeners, the agents' first, and what to call once they are served: it says where. Raises CannotServe."""
    if ready_file is not None:
        remove_ready_file(ready_file)  # One that a killed gateway left names a dead process.
    listeners = _listeners(settings)
    url = url_of(settings, listeners[0])

    def ready() -> None:
        announce(settings, url)
        if ready_file is not None:
            write_ready_file(ready_file, url)

    try:
        yield listeners, ready
    finally:
        for listener in listeners:
            listener.close()
        if ready_file is not None:
            remove_ready_file(ready_file)


def _listeners(settings: Settings) -> list[socket.socket]:
    """Raises CannotServe."""
    # Administration's first: any free port that the agents' finds is another one then.
    inner = [] if settings.admin_port is None else [listen(settings.admin_host, settings.admin_port)]
    try:
        return [listen(settings.host, settings.port), *inner]
    except CannotServe:
        for listener in inner:
            listener.close()
        raise


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises CannotServe."""
    host = host.strip("[]")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as exc:
        reason = exc.strerror if isinstance(exc, socket.gaierror) else os.strerror(exc.errno or 0)
        advice = "" if isinstance(exc, socket.gaierror) else _ADVICE.get(exc.errno or 0, "")
        raise CannotServe(f"can't listen on {host} port {port}: {reason}{advice}") from exc


def url_of(settings: Settings, listener: socket.socket) -> str:
    """Where this machine reaches the gateway, or what `public_url` says."""
    if settings.public_url is not None:
        return settings.public_url
    address, port = listener.getsockname()[:2]
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def remove_ready_file(path: Path) -> None:
    """Raises CannotServe where there can be none."""
    try:
        path.unlink(missing_ok=True)
    except OSError as exc:
        raise CannotServe(f"the ready file {path} can't be written: {exc.strerror}") from exc


def write_ready_file(path: Path, url: str) -> None:
    """Whole or not at all, for whoever waits for it. Raises CannotServe."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(json.dumps({"url": url, "pid": os.getpid()}) + "\n", encoding="utf-8")
        unfinished.replace(path)
    except OSError as exc:
        raise CannotServe(f"the ready file {path} can't be written: {exc.strerror}") from exc
