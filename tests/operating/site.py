"""A backend that can be killed, stalled and brought back, and knows when it was what."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from gateway.scripted import listening
from tests.faults.backend import Engine
from tests.operating.life import Life

_PORT_WITHIN_S: Final = 5.0
_MODEL_CALLS: Final = frozenset({"/v1/chat/completions", "/v1/completions"})


@dataclass(slots=True, eq=False)
class Site:
    """One engine at one address, which stays its own while it is dead."""

    name: str
    engine: Engine
    port: int
    life: Life = field(default_factory=Life)
    in_flight: int = 0
    """Model calls that it is at."""
    begun: set[int] = field(default_factory=set)
    """Calls whose answer's first byte has left."""
    _flowing: asyncio.Event = field(default_factory=asyncio.Event)
    _listening: AsyncExitStack | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def come_up(self) -> None:
        """Started, or started again. Raises OSError where its port can't be had."""
        self._flowing.set()
        self._listening = AsyncExitStack()
        deadline = time.monotonic() + _PORT_WITHIN_S
        while True:
            try:
                await self._listening.enter_async_context(listening(self, port=self.port))
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)
        self.life.becomes("up", time.monotonic())

    async def die(self) -> None:
        """As a process that is killed: its connections break, and its port refuses."""
        self.life.becomes("dead", time.monotonic())
        await self._shut()

    def hang(self) -> None:
        """As a process that is stopped: connections are taken, and nothing is said any more."""
        self.life.becomes("hung", time.monotonic())
        self._flowing.clear()

    def go_on(self) -> None:
        self._flowing.set()
        self.life.becomes("up", time.monotonic())

    async def leave(self) -> None:
        """Shut down, whatever it was."""
        if self.life.now not in ("removed", "dead"):
            self.life.becomes("removed", time.monotonic())
        await self._shut()

    async def _shut(self) -> None:
        if self._listening is not None:
            closing, self._listening = self._listening, None
            await closing.aclose()
        self._flowing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        number = next((int(value) for name, value in scope["headers"] if name == b"x-request-id"), None)

        async def sends(message: Message) -> None:
            await self._flowing.wait()
            if number is not None:
                self.begun.add(number)
            await send(message)

        calls = scope["path"] in _MODEL_CALLS
        self.in_flight += calls
        try:
            await self._flowing.wait()
            await self.engine(scope, receive, sends)
        finally:
            self.in_flight -= calls
