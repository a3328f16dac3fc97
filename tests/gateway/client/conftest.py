"""Each test here runs twice: with the client that waits, and with the one of the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.client import AsyncClient, Client
from tests.gateway.api.harness import Api, api
from tests.gateway.client.harness import URL, Awaited, Bridge, Loop, Reached, transport_of


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.stop()


@pytest.fixture(params=["blocking", "async"])
def connect(request: pytest.FixtureRequest, loop: Loop) -> Iterator[Callable[..., Any]]:
    """Makes a client from an async transport."""
    made: list[Any] = []

    def connect(transport: httpx.AsyncBaseTransport | None = None, url: str = URL, **options: Any) -> Any:
        if request.param == "async":
            client: Any = Awaited(loop, AsyncClient(url, transport=transport, **options))
        else:
            client = Client(url, transport=transport and Bridge(loop, transport), **options)
        made.append(client)
        return client

    yield connect
    for client in made:
        client.close()


@pytest.fixture
def application(loop: Loop, tmp_path: Path) -> Iterator[Api]:
    with loop.within(api(tmp_path)) as application:
        yield application


@pytest.fixture
def gateway(connect: Callable[..., Any], application: Api, loop: Loop) -> Reached:
    return Reached(connect(transport_of(application)), application, loop)
