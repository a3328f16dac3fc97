"""Looks at all backends some times a second: how many calls each is at, and whom the gateways take for dead."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import httpx

from tests.operating.fleet import Fleet
from tests.operating.judgement import Sample
from tests.operating.trainer import Trainer

_EVERY_S = 0.2
# Who is down is so for a second at least.
_ASKED_EVERY_S = 0.5
# After a pause all held calls begin at once, and are spread again when they have ended.
_SETTLES_S = 3.0


@dataclass(slots=True)
class Watch:
    fleet: Fleet
    trainer: Trainer
    samples: list[Sample] = field(default_factory=list)
    """Of moments in which calls flow everywhere."""
    doubted: dict[str, list[float]] = field(default_factory=dict)
    """When a gateway took a backend for anything but up."""

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sample())
            for gateway in self.fleet.gateways:
                tasks.create_task(self._ask(gateway.url))

    async def _sample(self) -> None:
        while True:
            now = time.monotonic()
            if self.trainer.paused is None and now - self.trainer.resumed > _SETTLES_S:
                self.samples.append(Sample(now, {site.name: site.in_flight for site in self.fleet.serving()}))
            await asyncio.sleep(_EVERY_S)

    async def _ask(self, url: str) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
            while True:
                answer = await client.get("/api/admin/backends")
                now = time.monotonic()
                for backend in answer.raise_for_status().json()["items"]:
                    if backend["health"] != "up":
                        self.doubted.setdefault(backend["name"], []).append(now)
                await asyncio.sleep(_ASKED_EVERY_S)
