"""`serve`: one gateway on its listener, or its two, from settings to the last answer."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gateway.commands.descriptors import connections_for, raise_descriptor_limit
from gateway.commands.errors import CommandFailed
from gateway.commands.memory import share_memory
from gateway.commands.server import Gateway, Server
from gateway.edge import Doorway
from gateway.settings import Settings
from gateway.sight.logs import set_up

BACKLOG = 2048
_ADVICE: Final = {
    errno.EADDRINUSE: "; --port 0 takes any free one",
    errno.EADDRNOTAVAIL: "; no interface of this machine has that address",
}


class CannotServe(CommandFailed):
    """The gateway did not start; the message says why and what would do."""


def serve(settings: Settings, *, ready_file: Path | None, announce: Callable[[Settings, str], None]) -> None:
    """Serve until told to stop. Raises CannotServe."""
    log(settings)
    share_memory()
    # Arrow's own allocator keeps what exports have used, some 40 MB. It is asked for when Arrow is first imported.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if settings.workers > 1:
        from gateway.commands.workers import serve_with_workers

        serve_with_workers(settings, ready_file=ready_file, announce=announce)
        return
    from gateway.app import create_app

    run(create_app(settings, os.environ), settings, ready_file=ready_file, announce=announce)


def log(settings: Settings, worker: int | None = None) -> None:
    """Set up the log of this process."""
    set_up(settings.log_level, settings.log_format, secrets=settings.secrets(), worker=worker)


def run(
    gateway: Gateway, settings: Settings, *, ready_file: Path | None, announce: Callable[[Settings, str], None]
) -> None:
    """The same with a gateway that is made already."""
    with announced(settings, ready_file=ready_file, announce=announce) as (listeners, ready):
        serve_on(gateway, settings, listeners, ready)


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


def serve_on(gateway: Gateway, settings: Settings, listeners: list[socket.socket], ready: Callable[[], None]) -> None:
    """One gateway in this process, until it is told to stop. Raises CannotServe."""
    descriptors = raise_descriptor_limit()
    doorway = Doorway(
        receive_timeout=settings.receive_timeout,
        max_connections=settings.max_connections or connections_for(descriptors),
    )
    server = Server(
        gateway,
        doorway,
        stop_notice=settings.stop_notice,
        stop_grace=settings.stop_grace,
        backlog=BACKLOG,
        on_ready=ready,
    )
    try:
        server.run(sockets=listeners)
    except SystemExit as exc:  # uvicorn's way to say that the application did not start.
        raise CannotServe(str(server.failure or "the gateway could not start; see above")) from exc
    if server.failure is not None:
        raise server.failure


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
