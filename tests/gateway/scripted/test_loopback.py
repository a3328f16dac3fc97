"""An app on a loopback port: when it starts, and when it does not."""

from __future__ import annotations

import socket

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from gateway.scripted import listening
from gateway.scripted.loopback import CouldNotStart


class App:
    """Answers each request with what its start-up left in its state."""

    def __init__(self, *, starts: bool = True) -> None:
        self.starts = starts
        self.events: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            self.events.append("started")
            scope["state"]["said"] = b"hello"
            await send({"type": f"lifespan.startup.{'complete' if self.starts else 'failed'}"})
            await receive()
            self.events.append("stopped")
            await send({"type": "lifespan.shutdown.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["state"]["said"]})


async def test_an_app_starts_answers_and_stops() -> None:
    app = App()
    async with listening(app, lifespan=True) as url, httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(url)).text == "hello"
    assert app.events == ["started", "stopped"]


async def test_where_the_port_is_taken_the_app_is_not_started() -> None:
    app = App()
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        async with listening(app, port=taken.getsockname()[1], lifespan=True):
            pass
    assert app.events == []


async def test_an_app_that_does_not_start_leaves_no_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(CouldNotStart):
        async with listening(App(starts=False), port=port, lifespan=True):
            pass
    with socket.create_server(("127.0.0.1", port)):
        pass
