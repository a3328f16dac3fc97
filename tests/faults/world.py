"""One run: backends, gateways before them, agents before those, and the judgement at the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import msgspec

from gateway.scripted import HEALTHY, Fault
from tests.faults.agent import Agent, Leaves, Waits, reads_on, stays
from tests.faults.backend import TOKENS, Engine, Order, running
from tests.faults.ledger import NOTHING, Allowed, Findings, Ledger
from tests.faults.processes import Gateway
from tests.faults.records import FIELDS, Heard, Row

_LINES = "application/x-ndjson"
PATIENT: Mapping[str, object] = {"commit_timeout": 60}
"""For gateways that share sessions on a machine with little to spare: what one of them spools, because a commit takes
longer than a second, the other does not know, and `turn` and parents are then those of the drain.
"""


class NotNow(Exception):
    """The gateway answered with a 503, and its reason."""


@dataclass(slots=True)
class World:
    """`engines` share one ledger of what was said; `heard` is what came of it."""

    folder: Path
    engines: list[Engine]
    gateways: list[Gateway]
    heard: list[Heard] = field(default_factory=list)
    agents: dict[str, Agent] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1))

    @property
    def gateway(self) -> Gateway:
        return self.gateways[0]

    def agent(self, session: str) -> Agent:
        if session not in self.agents:
            self.agents[session] = Agent(session, _Ports(self.gateways))
        return self.agents[session]

    async def call(
        self,
        session: str,
        *,
        fault: Fault = HEALTHY,
        order: Order | None = None,
        tokens: int = TOKENS,
        stream: bool = True,
        gateway: int = 0,
        leaves: Leaves = stays,
        waits: Waits = reads_on,
        limit: float = 60.0,
        **fields: Any,
    ) -> Heard:
        """The next call of a session, answered with what is ordered; its agent leaves at the limit."""
        number = next(self._numbers)
        order = order or Order(fault, tokens)
        if order != Order():
            self.engines[0].orders[number] = order
        agent = self.agent(session)
        heard = await agent.call(
            number, gateway=gateway, stream=stream, leaves=leaves, waits=waits, limit=limit, **fields
        )
        self.heard.append(heard)
        return heard

    def leave(self, session: str) -> None:
        """The rollout is over; its connections and its history are let go."""
        self.agents.pop(session).close()

    async def ask(self, path: str, *, gateway: int = 0, **query: object) -> Any:
        """A GET of the trainers' and administrators' API. Raises NotNow."""
        async with self.client(gateway) as client:
            response = await client.get(path, params={name: str(value) for name, value in query.items()})
            if response.status_code == 503:
                raise NotNow(f"{path}: {response.text}")
            assert response.is_success, f"{path} was answered with {response.status_code}: {response.text}"
            return response.json()

    def client(self, gateway: int = 0) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.gateways[gateway].url, timeout=120, trust_env=False)

    async def rows(self, gateway: int = 0) -> list[Row]:
        """All traces, as a trainer gets them."""
        decoder = msgspec.json.Decoder(Row)
        rows: list[Row] = []
        parts: list[bytes] = []
        async with (
            self.client(gateway) as client,
            client.stream("GET", "/api/traces", params={"fields": FIELDS}, headers={"accept": _LINES}) as answer,
        ):
            answer.raise_for_status()
            async for data in answer.aiter_bytes():
                parts.append(data)
                if b"\n" in data:
                    *lines, rest = b"".join(parts).split(b"\n")
                    rows += map(decoder.decode, lines)
                    parts = [rest]
        return rows

    async def idle(self, *, gateway: int = 0, seconds: float = 20.0) -> None:
        """Returns once the gateway is at no call, and none is open at a backend. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while True:
                status = await self.ask("/api/admin/status", gateway=gateway)
                at = [status["calls"]["in_flight"], *(each["in_flight"] for each in status["backends"])]
                if not any(at) and not any(engine.open for engine in self.engines):
                    return
                await asyncio.sleep(0.02)

    async def settled(self, *, gateway: int = 0, seconds: float = 20.0) -> None:
        """Returns once the database has all and no call runs. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while True:
                with suppress(NotNow):  # A database that was silent a moment ago is not asked at once again.
                    page = await self.ask("/api/traces", gateway=gateway, status="running", limit=1, fields="trace_id")
                    if page["complete"] and not page["items"]:
                        return
                await asyncio.sleep(0.05)

    def ledger(self, rows: Sequence[Row]) -> Ledger:
        """For the judgement, by the database as a gateway tells it."""
        return Ledger(self.engines[0].emissions, self.heard, rows)

    async def findings(self, allowed: Allowed = NOTHING, *, gateway: int = 0) -> Findings:
        return self.ledger(await self.rows(gateway)).findings(allowed)


class _Ports(Sequence[int]):
    """Where the gateways listen now."""

    def __init__(self, gateways: Sequence[Gateway]) -> None:
        self._gateways = gateways

    def __getitem__(self, at: Any) -> Any:
        return self._gateways[at].port

    def __len__(self) -> int:
        return len(self._gateways)


@asynccontextmanager
async def world(
    folder: Path,
    *,
    engines: Sequence[Engine] = (),
    gateways: int = 1,
    database: str | None = None,
    settings: Mapping[str, object] | None = None,
    backends: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[World]:
    """Up and ready. `backends` stand in the place of the engines' own URLs, where something stands between; `environ`
    is of the first gateway alone.
    """
    engines = [*engines] or [Engine()]
    configured = {f"ROLLOUT_GATEWAY_{name.upper()}": str(value) for name, value in (settings or {}).items()}
    async with AsyncExitStack() as stack:
        told: list[str] = []
        for at, engine in enumerate(engines):
            url = await stack.enter_async_context(running(engine))
            version = f",version={engine.version}" if engine.version else ""
            told.append(f"{url},name=b{at},engine={engine.name}{version}")
        arguments = [
            *("--database", database or f"sqlite:///{folder / 'rollouts.db'}", "--log-level", "warning"),
            *(word for url in backends or told for word in ("--backend", url)),
        ]
        made = World(folder, engines, [])
        try:
            for at in range(gateways):
                own = configured if at else configured | dict(environ or {})
                made.gateways.append(Gateway(tuple(arguments), own, folder / f"gateway-{at}"))
            await asyncio.gather(*(each.start() for each in made.gateways))
            yield made
        finally:
            for agent in made.agents.values():
                agent.close()
            for gateway in made.gateways:
                gateway.kill()


async def until(condition: Any, seconds: float = 20.0) -> float:
    """Returns once it is so, with the seconds that it took. Raises TimeoutError."""
    started = time.monotonic()
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
    return time.monotonic() - started
