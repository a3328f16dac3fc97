"""Both clients from one test: the application has a loop in a thread, where the async client is awaited."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import httpx

from gateway.client import AsyncItems, AsyncOpenSession, AsyncWork
from tests.gateway.api.harness import Api

Value = TypeVar("Value")

URL = "http://127.0.0.1:9090"


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    @contextmanager
    def within(self, manager: AbstractAsyncContextManager[Value]) -> Iterator[Value]:
        """What an async `with` gives. It gets to know of no exception, so it is for what only opens and closes."""
        value = self.run(_awaited(manager.__aenter__()))
        try:
            yield value
        finally:
            self.run(_awaited(manager.__aexit__(None, None, None)))

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class Bridge(httpx.BaseTransport):
    """The application on the loop, asked from another thread."""

    def __init__(self, loop: Loop, transport: httpx.AsyncBaseTransport) -> None:
        self._loop = loop
        self._transport = transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._loop.run(self._answer(request))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        request.read()
        response = await self._transport.handle_async_request(request)
        return httpx.Response(response.status_code, headers=response.headers, content=await response.aread())


class Awaited:
    """An async object used as if it were of the other client: each call is run to its end on the loop."""

    def __init__(self, loop: Loop, of: Any) -> None:
        self._loop = loop
        self._of = of

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._of, name)
        return (lambda *args, **kwargs: self._given(value(*args, **kwargs))) if inspect.ismethod(value) else value

    def __enter__(self) -> Any:
        return self._given(self._of.__aenter__())

    def __exit__(self, *exc: Any) -> bool | None:
        return bool(self._loop.run(_awaited(self._of.__aexit__(*exc))))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return self._loop.run(self._of.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __bool__(self) -> bool:
        return bool(self._of)

    def _given(self, value: Any) -> Any:
        if inspect.isawaitable(value):
            value = self._loop.run(_awaited(value))
        if isinstance(value, AsyncItems | AsyncOpenSession | AsyncWork | AbstractAsyncContextManager):
            return self if value is self._of else Awaited(self._loop, value)
        return value


@dataclass(frozen=True, slots=True)
class Reached:
    """An application, and a client that reaches it."""

    client: Any
    api: Api
    loop: Loop


def transport_of(application: Api) -> httpx.ASGITransport:
    return httpx.ASGITransport(application.app, client=("127.0.0.1", 40000))


async def _awaited(value: Any) -> Any:
    return await value
