"""What is operated: backends at addresses of their own, and the gateways before them with their administration."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx

from tests.faults.backend import Engine, Order
from tests.faults.processes import Gateway
from tests.faults.records import Emission
from tests.operating.judgement import Change, Lives
from tests.operating.site import Site

# The second tells nothing of its weights: of its answers they are what the administrator says.
_ENGINES: Final = (("vllm", None), ("vllm", "0.20.2"), ("sglang", None), ("dynamo", None))
# Below those that the system gives to outgoing connections, or a dead backend's port is taken before it is back.
_PORTS: Final = range(20_000, 32_000)


class Refused(Exception):
    """The administration answered with an error."""


@dataclass(slots=True)
class Fleet:
    """`sites` has every backend that ever was; they share one ledger of what they said."""

    gateways: list[Gateway]
    sites: dict[str, Site]
    emissions: list[Emission]
    orders: dict[int, Order]
    weights: str = "step-0"
    changes: list[Change] = field(default_factory=list)
    _names: count[int] = field(default_factory=count)
    _serials: count[int] = field(default_factory=count)

    @property
    def lives(self) -> Lives:
        return {name: site.life for name, site in self.sites.items()}

    def serving(self) -> list[Site]:
        return [site for site in self.sites.values() if site.life.now == "up"]

    def new(self) -> Site:
        """Another backend, not yet started."""
        at = next(self._names)
        kind, version = _ENGINES[at % len(_ENGINES)]
        name = f"b{at}"
        engine = Engine(
            *(kind, version, self.weights),
            backend=name,
            administered=True,
            orders=self.orders,
            emissions=self.emissions,
            serials=self._serials,
        )
        self.sites[name] = Site(name, engine, _free_port())
        return self.sites[name]

    async def add(self, site: Site) -> None:
        """Raises Refused."""
        told = {"url": site.url, "name": site.name, "weight_version": self.weights}
        await self._change("added", site, "POST", "/api/admin/backends", told)

    async def weigh(self, *sites: Site) -> None:
        """Tell the gateways which weights these have; without any, that all have them. Raises Refused."""
        named = {"backends": [site.name for site in sites]} if sites else {}
        await self.tell("POST", "/api/admin/weight-version", {"weight_version": self.weights, **named})

    async def remove(self, site: Site) -> None:
        await self._change("removed", site, "DELETE", f"/api/admin/backends/{site.name}")
        site.life.becomes("removed", time.monotonic())

    async def drain(self, site: Site) -> None:
        await self._change("drained", site, "POST", f"/api/admin/backends/{site.name}/drain")
        site.life.becomes("draining", time.monotonic())

    async def _change(self, kind: Any, site: Site, method: str, path: str, body: object = None) -> None:
        told = time.monotonic()
        await self.tell(method, path, body)
        self.changes.append(Change(kind, site.name, told, time.monotonic()))

    async def tell(self, method: str, path: str, body: object = None, *, gateway: int = 0) -> Any:
        """Raises Refused."""
        async with httpx.AsyncClient(base_url=self.gateways[gateway].url, timeout=120, trust_env=False) as client:
            answer = await client.request(method, path, json=body)
        if answer.is_error:
            raise Refused(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer.json() if answer.content else None


@asynccontextmanager
async def fleet(folder: Path, backends: int, *, gateways: int = 1, database: str | None = None) -> AsyncIterator[Fleet]:
    """Up, with all gateways ready. The first backends are those of the configuration."""
    made = Fleet([], {}, [], {})
    try:
        for _ in range(backends):
            await made.new().come_up()
        arguments = [
            *("--database", database or f"sqlite:///{folder / 'rollouts.db'}", "--log-level", "warning"),
            *(word for site in made.sites.values() for word in ("--backend", f"{site.url},name={site.name}")),
        ]
        for at in range(gateways):
            made.gateways.append(Gateway(tuple(arguments), {}, folder / f"gateway-{at}"))
        await asyncio.gather(*(gateway.start() for gateway in made.gateways))
        yield made
    finally:
        for gateway in made.gateways:
            gateway.kill()
        for site in made.sites.values():
            await site.leave()


def _free_port() -> int:
    """Where nobody listens; another run on the same machine looks elsewhere."""
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no port is free")
