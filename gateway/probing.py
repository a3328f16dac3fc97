"""Backends that were quiet for a while are asked whether they live; those that are down, whether they are back.

Calls tell more than probes do, and sooner: a backend that answers them is left alone.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from adapters.engines import adapter_for
from gateway.backend import Backend
from gateway.backends import Backends
from gateway.upstream import NoAnswer, NothingSent, TimedOut, Upstream, UpstreamError

logger = logging.getLogger(__name__)

_REPLY_BYTES: Final = 4 * 1024 * 1024
# How often it is looked who is to be asked: a second try of what failed once, or the end of a pause, comes that late.
_LOOK_EVERY: Final = 1.0
# Many gateways of the same backends shall not ask in step.
_JITTER: Final = (0.8, 1.2)


class Prober:
    """`patience` is seconds for an answer; `quiet` is how long nothing was heard of whoever is asked."""

    def __init__(self, backends: Backends, upstream: Upstream, *, patience: float, quiet: float) -> None:
        self._backends = backends
        self._upstream = upstream
        self._patience = patience
        self._quiet = quiet
        self._asked: set[Backend] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """For as long as the context is open."""
        watching = asyncio.create_task(self._watch(), name="probe backends")
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def _watch(self) -> None:
        async with asyncio.TaskGroup() as probes:
            while True:
                await asyncio.sleep(min(self._quiet, _LOOK_EVERY) * random.uniform(*_JITTER))
                for backend in self._backends.due(self._quiet * random.uniform(*_JITTER)):
                    if backend not in self._asked:
                        self._asked.add(backend)
                        probes.create_task(self._probe(backend), name=f"probe {backend.name}")

    async def _probe(self, backend: Backend) -> None:
        try:
            await self.probe(backend)
        except Exception:
            logger.exception("backend %s could not be probed", backend.name)
        finally:
            self._asked.discard(backend)

    async def probe(self, backend: Backend) -> None:
        """Ask one, and mark it by what comes of it."""
        if backend.server is None:
            await self._backends.know(backend)
            if backend.server is not None:
                self._backends.spoke(backend)
            return
        path = adapter_for(backend.server.engine).health_at
        try:
            status = await self._status(backend, path)
        except NothingSent as exc:
            self._backends.refused(backend, exc.why)
        except NoAnswer as exc:
            self._backends.struck(backend, exc.why)
        except TimedOut as exc:
            backend.pulse.kept_waiting(exc.why)
        else:
            if status >= 500:
                self._backends.struck(backend, f"{path} answers with status {status}")
            else:
                self._backends.spoke(backend)

    async def _status(self, backend: Backend, path: str) -> int:
        """Raises UpstreamError."""
        try:
            async with asyncio.timeout(self._patience):
                url, headers = backend.url_of(path), backend.headers()
                answer = await self._upstream.send(backend.name, "GET", url, headers=headers)
                try:
                    await answer.body(_REPLY_BYTES)  # Read to its end, so that the connection can be used again.
                except UpstreamError:
                    pass  # The status line has said it.
                finally:
                    await asyncio.shield(answer.close())
        except TimeoutError as exc:
            raise TimedOut(backend.name, f"no answer to {path} within {self._patience:g} s") from exc
        return answer.status
