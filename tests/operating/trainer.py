"""The trainer: new weights each minute, while nobody samples."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from tests.operating.fleet import Fleet, Refused
from tests.operating.site import Site

# More than the slowest answer takes.
_WAIT_S = 20.0
# An upload of weights takes far longer; agents wait all the same.
_UPDATE_S = 0.3


@dataclass(slots=True)
class Trainer:
    """`broken` says what of the promises of pause and resume did not hold, each a sentence."""

    fleet: Fleet
    step: int = 0
    paused: float | None = None
    """Since when; null while calls flow."""
    resumed: float = float("-inf")
    """When they last began to flow again."""
    longest: float = 0.0
    """Of the pauses, in seconds."""
    broken: list[str] = field(default_factory=list)

    async def update(self) -> None:
        """All backends at once, those too that are down just now: they load the newest weights when they start."""
        self.step += 1
        version = f"step-{self.step}"
        sites = [site for site in self.fleet.sites.values() if site.life.now != "removed"]
        self.fleet.weights = version
        await self._hold(None, version, sites)

    async def roll(self) -> None:
        """A quarter of the backends after the other, while the others serve on."""
        self.step += 1
        version = f"step-{self.step}"
        self.fleet.weights = version
        sites = [site for site in self.fleet.sites.values() if site.life.now in ("up", "draining")]
        size = -(-len(sites) // 4)
        for at in range(0, len(sites), size):
            part = sites[at : at + size]
            await self._hold([site.name for site in part], version, part)

    async def _hold(self, names: list[str] | None, version: str, sites: list[Site]) -> None:
        started = time.monotonic()
        if names is None:
            self.paused = started
        covered = {} if names is None else {"backends": names}
        try:
            wanted = {"owner": "trainer", "wait": _WAIT_S, "ttl": 3 * _WAIT_S}
            status = await self.fleet.tell("POST", "/api/admin/pause", wanted | covered)
            if not status["drained"]:
                self.broken.append(f"the pause for {version} was not drained within {_WAIT_S:g} s")
            at_work = [site.name for site in sites if site.in_flight]
            if at_work:
                self.broken.append(f"{', '.join(at_work)} still sampled when the pause for {version} was drained")
            for site in sites:
                site.engine.weights = version
            await self.fleet.tell("POST", "/api/admin/weight-version", {"weight_version": version, **covered})
            await asyncio.sleep(_UPDATE_S if names is None else 0.0)
            begun = [site.name for site in sites if site.in_flight]
            if begun:
                self.broken.append(f"{', '.join(begun)} got calls while the weights changed to {version}")
            await self.fleet.tell("POST", "/api/admin/resume", {"pause_id": status["pause_id"]})
        except Refused as exc:
            self.broken.append(str(exc))
        finally:
            self.longest = max(self.longest, time.monotonic() - started)
            if names is None:
                self.paused, self.resumed = None, time.monotonic()
