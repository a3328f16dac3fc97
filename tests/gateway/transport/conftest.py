"""Every test here runs on both event loops: uvloop's transports differ from asyncio's where it matters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from gateway.transport import HttpTransport


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def transport() -> AsyncIterator[HttpTransport]:
    # Every kept connection may be stale, so that no test has to wait for one to become it.
    opened = HttpTransport(stale_seconds=0.0)
    yield opened
    await opened.aclose()
    assert opened.pool.in_use == opened.pool.idle == 0
