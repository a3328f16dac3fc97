"""The two ways to do a call: one waits in its thread, the other on the event loop. All else they share."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import httpx

from gateway.client.call import Answer, Call, NoAnswer, Outcome, pauses
from gateway.client.errors import refusal

T = TypeVar("T")

LOCAL: Final = "http://127.0.0.1:9090"
"""Where a gateway listens unless it is told otherwise."""

# As many rollouts as there are may ask at once; those that go on hold few connections between their calls.
_LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=64)
_LONG: Final = 256 * 1024
"""Bytes of JSON: some milliseconds, in which nothing else would run on the event loop."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the gateway is, and how patient its caller."""

    url: str
    key: str | None = field(repr=False)
    timeout: float
    """Seconds in which nothing may come."""
    retries: int

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"{self.url!r} is no URL of a gateway: it begins with http:// or https://")
        if self.timeout <= 0 or self.retries < 0:
            raise ValueError(f"a timeout of {self.timeout} s and {self.retries} retries are none")

    def options(self) -> dict[str, Any]:
        """For httpx. Its environment is not read: a proxy on the way out of a cluster is none to the gateway in it."""
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        return {"base_url": self.url, "headers": headers, "limits": _LIMITS, "trust_env": False}


class Connection:
    """Calls that wait in their thread. Any thread may call."""

    def __init__(self, reach: Reach, transport: httpx.BaseTransport | None) -> None:
        self._reach = reach
        self._http = httpx.Client(**reach.options(), transport=transport)
        self.close = weakref.finalize(self, self._http.close)
        """Also when nobody holds it any more, as in `with Client(url).session() as s`."""

    def do(self, call: Call[T]) -> T:
        for pause in pauses(self._reach.retries):
            outcome = self._once(call)
            if not outcome.retry(call):
                return outcome.value(call)
            time.sleep(pause)
        return self._once(call).value(call)

    @contextmanager
    def stream(self, call: Call[None]) -> Iterator[httpx.Response]:
        """An answer to be read part by part, tried once."""
        try:
            with self._http.stream(**call.arguments(self._reach.timeout)) as response:
                if not response.is_success:
                    raise refusal(response.status_code, response.read())
                yield response
        except httpx.TransportError as exc:
            NoAnswer(exc).value(call)

    def _once(self, call: Call[Any]) -> Outcome:
        try:
            response = self._http.request(**call.arguments(self._reach.timeout))
        except httpx.TransportError as exc:
            return NoAnswer(exc)
        return Answer(response.status_code, response.headers, response.content)


class AsyncConnection:
    """Calls that wait on the event loop."""

    def __init__(self, reach: Reach, transport: httpx.AsyncBaseTransport | None) -> None:
        self._reach = reach
        self._http = httpx.AsyncClient(**reach.options(), transport=transport)
        self.close = self._http.aclose

    async def do(self, call: Call[T]) -> T:
        for pause in pauses(self._reach.retries):
            outcome = await self._once(call)
            if not outcome.retry(call):
                return await _read(outcome, call)
            await asyncio.sleep(pause)
        return await _read(await self._once(call), call)

    @asynccontextmanager
    async def stream(self, call: Call[None]) -> AsyncIterator[httpx.Response]:
        """An answer to be read part by part, tried once."""
        try:
            async with self._http.stream(**call.arguments(self._reach.timeout)) as response:
                if not response.is_success:
                    raise refusal(response.status_code, await response.aread())
                yield response
        except httpx.TransportError as exc:
            NoAnswer(exc).value(call)

    async def _once(self, call: Call[Any]) -> Outcome:
        try:
            response = await self._http.request(**call.arguments(self._reach.timeout))
        except httpx.TransportError as exc:
            return NoAnswer(exc)
        return Answer(response.status_code, response.headers, response.content)


async def _read(outcome: Outcome, call: Call[T]) -> T:
    if isinstance(outcome, Answer) and len(outcome.body) > _LONG:
        return await asyncio.to_thread(outcome.value, call)
    return outcome.value(call)
