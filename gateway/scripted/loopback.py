"""An ASGI app on a loopback port, in this process and on this event loop, up and down within milliseconds.

For scripted servers, the demo and tests: without the signal handlers, the ticking and the log lines of a server
that stands alone, and with the connection in the scope's state (`state["transport"]`) for faults.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.lifespan.on import LifespanOn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

_HOST = "127.0.0.1"


class _Connection(HttpToolsProtocol):
    """uvicorn's own protocol, that lets the app see its connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.app_state = {**self.app_state, "transport": transport}
        super().connection_made(transport)


class CouldNotStart(RuntimeError):
    """The app's own start-up failed; uvicorn has logged why."""


@asynccontextmanager
async def listening(
    app: ASGIApp,
    *,
    port: int = 0,
    lifespan: bool = False,
    connection: Callable[[uvicorn.Config, ServerState, dict[str, Any]], HttpToolsProtocol] = _Connection,
) -> AsyncIterator[str]:
    """The app's URL while it is served. At the end what still runs of it is cancelled.

    Raises CouldNotStart, and OSError where the port can't be had.
    """
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on" if lifespan else "off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
    )
    config.load()
    state = ServerState()
    span = LifespanOn(config) if lifespan else None
    app_state = span.state if span is not None else {}
    # Before the app starts: where the port is taken, nothing has to be taken down again.
    listener = await asyncio.get_running_loop().create_server(
        lambda: connection(config, state, app_state), _HOST, port, start_serving=False
    )
    try:
        if span is not None:
            await span.startup()
            if span.should_exit:
                raise CouldNotStart(f"{app!r} did not start")
        await listener.start_serving()
        yield f"http://{_HOST}:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        await _end(state)
        if span is not None and not span.should_exit:
            await span.shutdown()


async def _end(state: ServerState) -> None:
    for connection in [*state.connections]:
        if isinstance(connection, HttpToolsProtocol):
            connection.transport.abort()
    tasks = [*state.tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def free_port() -> int:
    """A port where nobody listens, just now: for what has to be refused, or started as another process."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])
