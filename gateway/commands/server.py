"""uvicorn as this gateway needs it: says when it listens, stops in order, and keeps why it could not start."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from types import FrameType
from typing import Final, Protocol, cast

import uvicorn
from starlette.types import Message, Receive, Scope, Send

from gateway.commands.errors import CommandFailed
from gateway.edge import AgentConnection, Doorway
from gateway.exposure import Exposed
from gateway.sight.tracing import CannotTrace
from gateway.text_encoder import TokenizerUnavailable
from storage.errors import StorageError

logger = logging.getLogger(__name__)

# Longer than agents' pools keep a connection (httpx 5 s, Node 4 s, Go 90 s): where the server closes first,
# their next call fails on a stale socket.
_KEEP_ALIVE: Final = 95

# More than a call makes; 700 by default.
_YOUNG_OBJECTS: Final = 20_000

# For calls that the end of the grace has cancelled, to record themselves.
_LAST_WORDS: Final = 10.0
_TICK: Final = 0.05


class Gateway(Protocol):
    """The application, as far as its server needs to know it."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]: ...

    def stop(self) -> None:
        """It was told to stop: from now on it is not ready, and what runs may finish."""

    @property
    def is_watched(self) -> bool:
        """Somebody asks whether it is ready."""


class Server(uvicorn.Server):
    """Runs one gateway on sockets that are bound already.

    Told to stop it is not ready from then on, and for `stop_notice` seconds serves on, so that whoever sends it calls
    can learn of that; then it listens no more, and what runs has `stop_grace` seconds. What is left is cancelled, and
    records itself. Told again it hurries: neither notice nor grace.
    """

    def __init__(
        self,
        gateway: Gateway,
        doorway: Doorway,
        *,
        stop_notice: float,
        stop_grace: float,
        backlog: int,
        on_ready: Callable[[], None],
    ) -> None:
        self._gateway = gateway
        self._doorway = doorway
        self._stop_notice = stop_notice
        self._stop_grace = stop_grace
        self._listens_until: float | None = None
        self._hurries = False
        self._on_ready = on_ready
        self._not_announced: CommandFailed | None = None
        self._lifespan = _Lifespan(gateway, self._calls_ended)
        super().__init__(
            uvicorn.Config(
                self._lifespan,
                interface="asgi3",
                loop="uvloop",
                http=cast(type[asyncio.Protocol], partial(AgentConnection, doorway=doorway)),
                ws="none",
                lifespan="on",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                backlog=backlog,
                timeout_keep_alive=_KEEP_ALIVE,
            )
        )

    @property
    def failure(self) -> StorageError | TokenizerUnavailable | Exposed | CannotTrace | CommandFailed | None:
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
        self._hurries = self._listens_until is not None
        self._gateway.stop()
        self._doorway.closing = True
        notice = self._stop_notice if self._gateway.is_watched and not self._hurries else 0.0
        self._listens_until = time.monotonic() + notice

    async def on_tick(self, counter: int) -> bool:
        if self._listens_until is not None and time.monotonic() >= self._listens_until:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Not uvicorn's own, which knows whole seconds of grace, and closes nothing in order when it is told to hurry.
        for listener in [*self.servers, *(sockets or ())]:
            listener.close()
        for connection in [*self.server_state.connections]:
            connection.shutdown()
        until = time.monotonic() + self._stop_grace
        logger.info("told to stop: %d calls may go on for %g s", len(self.server_state.tasks), self._stop_grace)
        while self._is_busy() and time.monotonic() < until and not self._hurries:  # noqa: ASYNC110, uvicorn tells nobody
            await asyncio.sleep(_TICK)
        if self.server_state.tasks:
            logger.warning("%d calls had no end in time and are interrupted", len(self.server_state.tasks))
        for task in [*self.server_state.tasks]:
            task.cancel()
        await self.lifespan.shutdown()
        logger.info("stopped")

    def _is_busy(self) -> bool:
        """A call runs, or its answer is still on its way out."""
        return bool(self.server_state.tasks or self.server_state.connections)

    async def _calls_ended(self) -> None:
        # They were cancelled; without waiting their traces would find the database closed.
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
        self.failure: StorageError | TokenizerUnavailable | Exposed | CannotTrace | None = None

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
        except (StorageError, TokenizerUnavailable, Exposed, CannotTrace) as exc:
            # Starlette has told the traceback already, which nobody needs to see for a file that can't be opened.
            self.failure = exc
            refused = {"type": "lifespan.startup.failed", "message": ""}
        finally:
            if refused is not None:
                await send(refused)
