"""`serve`: one gateway on one listener, from settings to the last answer."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

import uvicorn
from starlette.types import Message, Receive, Scope, Send

from gateway.commands.errors import CommandFailed
from gateway.settings import Settings
from storage.errors import StorageError

# Longer than agents' pools keep a connection (httpx 5 s, Node 4 s, Go 90 s): a server that closes first makes their
# next call fail on a stale socket.
_KEEP_ALIVE: Final = 95
_BACKLOG: Final = 2048


class CannotServe(CommandFailed):
    """The gateway did not start; the message says why and what would do."""


class Gateway(Protocol):
    """The application, as far as its server needs to know it."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]: ...

    def stop(self) -> None:
        """It was told to stop: from now on it is not ready, and what runs may finish."""


class Server(uvicorn.Server):
    """uvicorn on a socket of ours, which says when it listens and tells the gateway when it has to stop."""

    def __init__(self, gateway: Gateway, settings: Settings, on_ready: Callable[[], None]) -> None:
        self._starting = _Starting(gateway)
        self._gateway = gateway
        self._on_ready = on_ready
        super().__init__(
            uvicorn.Config(
                self._starting,
                loop="uvloop",
                http="httptools",
                ws="none",
                lifespan="on",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                backlog=_BACKLOG,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=round(settings.stop_grace),
            )
        )

    @property
    def failure(self) -> StorageError | None:
        """Why the gateway could not start, where its database is the reason."""
        return self._starting.failure

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._gateway.stop()
        super().handle_exit(sig, frame)


class _Starting:
    """The gateway, with a database's refusal at start kept for a sentence in place of a logged traceback."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.failure: StorageError | None = None

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "lifespan":
            return self._lifespan(scope, receive, send)
        return self._gateway(scope, receive, send)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        failed = False

        async def send_without_traceback(message: Message) -> None:
            nonlocal failed
            failed = failed or message["type"] == "lifespan.startup.failed"
            if not failed:
                await send(message)

        try:
            await self._gateway(scope, receive, send_without_traceback)
        except StorageError as exc:
            self.failure = exc
        if failed:
            await send({"type": "lifespan.startup.failed"})


def serve(settings: Settings, *, ready_file: Path | None, announce: Callable[[Settings, str], None]) -> None:
    """Serve until told to stop. Raises CannotServe."""
    from gateway.app import create_app

    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
    if settings.log_level == "info":
        logging.getLogger("uvicorn.error").setLevel("WARNING")  # Its own greeting; ours says more.
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)  # One that a killed gateway left would name a dead process.
    listener = listen(settings.host, settings.port)
    url = url_of(settings, listener)

    def ready() -> None:
        announce(settings, url)
        if ready_file is not None:
            write_ready_file(ready_file, url)

    server = Server(create_app(settings), settings, ready)
    try:
        server.run(sockets=[listener])
    except SystemExit as exc:  # uvicorn's way to say that the application did not start.
        raise CannotServe(str(server.failure or "the gateway did not start; see above")) from exc
    finally:
        listener.close()
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises CannotServe."""
    host = host.strip("[]")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as exc:
        reason = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else str(exc)
        raise CannotServe(
            f"can't listen on {host} port {port}: {reason}; --port 0 takes any free one"
        ) from exc


def url_of(settings: Settings, listener: socket.socket) -> str:
    """Where this machine reaches the gateway, or what `public_url` says."""
    if settings.public_url is not None:
        return settings.public_url
    address, port = listener.getsockname()[:2]
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def write_ready_file(path: Path, url: str) -> None:
    """Whole or not at all, for whoever waits for it."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps({"url": url, "pid": os.getpid()}) + "\n", encoding="utf-8")
    unfinished.replace(path)
