"""What the backends are, in a line of the log each, as soon as the gateway has started."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.backend import Backend
from gateway.backends import Backends

logger = logging.getLogger(__name__)


@asynccontextmanager
async def introduced(backends: Backends) -> AsyncIterator[None]:
    """Asks them beside whatever else goes on: neither the start nor a call waits for one that does not answer."""
    asking = asyncio.create_task(introduce(backends), name="introduce backends")
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.wait([asking])


async def introduce(backends: Backends) -> None:
    await asyncio.gather(*(introduce_one(backend, backends) for backend in backends.all()))


async def introduce_one(backend: Backend, backends: Backends) -> None:
    await backends.know(backend)
    if backend.server is None:
        logger.warning(
            "backend %s is not reachable yet, and is asked again at the first call: %s",
            backend.name,
            backend.pulse.last_error,
        )
        return
    server = backend.server
    kind = " ".join(part for part in (server.engine, server.version, server.variant) if part)
    models = backend.settings.models or server.models
    if server.known == "assumed" and not models:
        logger.warning(
            "backend %s answers, but names no engine and no models: it may be no inference server", backend.name
        )
        return
    logger.info(
        "backend %s is %s (%s), models: %s", backend.name, kind, server.known, ", ".join(models) or "it names none"
    )
