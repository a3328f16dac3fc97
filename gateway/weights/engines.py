"""Asks engines themselves to pause, to go on or to empty their caches: those that are configured, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from adapters.control import Action, Command, EnginePause, NotOffered
from adapters.engines import adapter_for
from adapters.errors import read_error
from gateway.backend import Backend
from gateway.backends import Backends
from gateway.upstream import Upstream, UpstreamError

LIMIT_SECONDS: Final = 60.0
_REPLY_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """What became of it at one engine."""

    backend: str
    url: str
    action: Action
    ok: bool
    status: int | None = None
    """Null: it gave no answer, or was not asked."""
    error: str | None = None


class Engines:
    def __init__(self, backends: Backends, upstream: Upstream, *, timeout: float = LIMIT_SECONDS) -> None:
        """Seconds for each request."""
        self._backends = backends
        self._upstream = upstream
        self._timeout = timeout

    async def ask(self, action: Action, mode: EnginePause, backends: Iterable[Backend]) -> tuple[EngineAnswer, ...]:
        """All at once; what one fails at is told of that one."""
        asked = await asyncio.gather(*(self._ask_backend(action, mode, backend) for backend in backends))
        return tuple(answer for answers in asked for answer in answers)

    async def _ask_backend(self, action: Action, mode: EnginePause, backend: Backend) -> list[EngineAnswer]:
        try:
            server = await self._backends.server(backend)
            command = adapter_for(server.engine).control(action, mode, server)
        except (UpstreamError, NotOffered) as exc:
            return [EngineAnswer(backend.name, backend.settings.url, action, False, error=str(exc))]
        urls = backend.settings.control_urls or (backend.settings.url,)
        return await asyncio.gather(*(self._send(backend, url, action, command) for url in urls))

    async def _send(self, backend: Backend, url: str, action: Action, command: Command) -> EngineAnswer:
        headers = [*backend.headers(), *([("content-type", "application/json")] if command.body else [])]
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._upstream.send(
                    backend.name, "POST", url + command.path, headers=headers, body=command.body
                )
                try:
                    body = await answer.body(_REPLY_BYTES)
                finally:
                    await answer.close()
        except UpstreamError as exc:
            return EngineAnswer(backend.name, url, action, False, error=exc.why)
        except TimeoutError:
            return EngineAnswer(backend.name, url, action, False, error=f"no answer within {self._timeout:g} s")
        if 200 <= answer.status < 300:
            return EngineAnswer(backend.name, url, action, True, answer.status)
        why = command.absent if answer.status in (404, 405) and command.absent is not None else None
        words = why or read_error(answer.status, body).message
        return EngineAnswer(backend.name, url, action, False, answer.status, words)
