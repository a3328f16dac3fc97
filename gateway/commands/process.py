"""One gateway in this process, on listeners that are open: alone, or as one worker of several."""

from __future__ import annotations

import socket
from collections.abc import Callable

from gateway.commands.descriptors import connections_for, raise_descriptor_limit
from gateway.commands.listening import BACKLOG, CannotServe
from gateway.commands.server import Gateway, Server
from gateway.edge import Doorway
from gateway.settings import Settings
from gateway.sight.logs import set_up


def log(settings: Settings, worker: int | None = None) -> None:
    """Set up the log of this process."""
    set_up(settings.log_level, settings.log_format, secrets=settings.secrets(), worker=worker)


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
