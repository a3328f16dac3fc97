"""uvicorn as this gateway needs it: says when it listens, stops in order, and keeps why it could not start."""

from __future__ import annotations

import asyncio
import gc
import math
import signal
import socket
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Final, Protocol

import uvicorn
from starlette.types import Message, Receive, Scope, Send

from gateway.commands.errors import CommandFailed
from gateway.text_encoder import TokenizerUnavailable
from storage.errors import StorageError

# Longer than agents' pools keep a connection (httpx 5 s, Node 4 s, Go 90 s): where the server closes first,
# their next call fails on a stale socket.
_KEEP_ALIVE: Final = 95

# More than a call makes; 700 by default.
_YOUNG_OBJECTS: Final = 20_000

# For calls that the end of the grace has cancelled, to record themselves.
_LAST_WORDS: Final = 5.0


class Gateway(Protocol):
    """The application, as far as its server needs to know it."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]: ...

    def stop(self) -> None:
        """It was told to stop: from now on it is not ready, and what runs may finish."""


class Server(uvicorn.Server):
    """Runs one gateway on sockets that are bound already."""

    def __init__(self, gateway: Gateway, *, stop_grace: float, backlog: int, on_ready: Callable[[], None]) -> None:
        self._gateway = gateway
        self._on_ready = on_ready
        self._not_announced: CommandFailed | None = None
        self._lifespan = _Lifespan(gateway, self._calls_ended)
        super().__init__(
            uvicorn.Config(
                self._lifespan,
                interface="asgi3",
                loop="uvloop",
                http="httptools",
                ws="none",
                lifespan="on",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                backlog=backlog,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=math.ceil(stop_grace),  # uvicorn's type is int; a short grace is some.
            )
        )

    @property
    def failure(self) -> StorageError | TokenizerUnavailable | CommandFailed | None:
        """Why the gateway did not start, where a sentence is enough."""
        return self._not_announced or self._lifespan.failure

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _settle_garbage()
        if self.started:
            try:
                self._on_ready()
            except CommandFailed as exc:
                self._not_announced = exc
                self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not uvicorn's own, which raises the signal again in the end: a stop that was asked for is no failure.
        self._gateway.stop()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def _calls_ended(self) -> None:
        # uvicorn cancels what outlasts the grace and does not wait for it: its traces would find the database closed.
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=_LAST_WORDS)


def _settle_garbage() -> None:
    """What the start has made stays to the end; a call's own objects are mostly freed without the collector.

    So the collector looks at the first never again, and for cycles among the second more seldom: by default it takes
    a twentieth of the CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)


class _Lifespan:
    """The gateway, closed only after its calls, and with a refusal to start kept for one sentence."""

    def __init__(self, gateway: Gateway, calls_ended: Callable[[], Awaitable[None]]) -> None:
        self._gateway = gateway
        self._calls_ended = calls_ended
        self.failure: StorageError | TokenizerUnavailable | None = None

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "lifespan":
            return self._run(scope, receive, send)
        return self._gateway(scope, receive, send)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused: Message | None = None

        async def receive_in_order() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self._calls_ended()
            return message

        async def send_or_keep(message: Message) -> None:
            nonlocal refused
            if message["type"] == "lifespan.startup.failed":
                refused = message
            else:
                await send(message)

        try:
            await self._gateway(scope, receive_in_order, send_or_keep)
        except (StorageError, TokenizerUnavailable) as exc:
            # Starlette has told the traceback already, which nobody needs to see for a file that can't be opened.
            self.failure = exc
            refused = {"type": "lifespan.startup.failed", "message": ""}
        finally:
            if refused is not None:
                await send(refused)
