"""The night shift: cycle after cycle backends die, hang, come back, drain, come, go, and the weights change."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from tests.operating.fleet import Fleet, Refused
from tests.operating.site import Site
from tests.operating.trainer import Trainer

_ASKED: Final = 5


class Work(Protocol):
    """What is done to the backends of a run."""

    done: Counter[str]
    """How often each thing was done."""
    broken: list[str]
    """What of it did not come to pass, each a sentence."""

    async def cycle(self, number: int) -> None:
        """All of it once."""


@dataclass(slots=True)
class Operator:
    """Does the same in each cycle of `period` seconds, in the same order, to other backends."""

    fleet: Fleet
    trainer: Trainer
    period: float
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    async def cycle(self, number: int) -> None:
        """Every second time a whole rack of backends dies in one moment, and one that hangs is killed at last."""
        begun = time.monotonic()
        odd = number % 2 == 1
        rack = max(1, len(self.fleet.serving()) // 8) if odd else 1
        dead = self._some(rack)
        # In one moment. A call that was sent to two which died under it goes to no third: it may be what kills them.
        await asyncio.gather(*(site.die() for site in dead))
        self.done["died"] += len(dead)
        await self._at(begun, 0.15)
        (hung,) = self._some(1)
        hung.hang()
        self.done["hung"] += 1
        await self._at(begun, 0.3)
        for site in dead:
            await self._come_back(site)
        await self._at(begun, 0.4)
        if odd:
            await hung.die()
            self.done["hung till it was killed"] += 1
        else:
            hung.go_on()
        await self._at(begun, 0.45)
        (drained,) = self._some(1)
        await self._tell("drained", lambda: self.fleet.drain(drained))
        await self._tell("added", self._add)
        await self._at(begun, 0.55)
        (removed,) = self._some(1)
        await self._tell("removed", lambda: self.fleet.remove(removed))
        await self._tell("added", self._add)
        if odd:
            await self._come_back(hung)
        await self._at(begun, 0.8)
        await self._tell("removed", lambda: self.fleet.remove(drained))
        await self._at(begun, 0.85)
        await (self.trainer.roll() if number % 3 == 2 else self.trainer.update())
        self.done["weights changed"] += 1
        await self._at(begun, 1.0)

    def _some(self, number: int) -> list[Site]:
        """Of those that are up; one stays that is left alone."""
        up = self.fleet.serving()
        return self.chance.sample(up, min(number, len(up) - 1))

    async def _add(self) -> None:
        """Asked again where it does not say in time what it is: a machine with much to do is late."""
        site = self.fleet.new()
        await site.come_up()
        for left in reversed(range(_ASKED)):
            try:
                await self.fleet.add(site)
            except Refused:
                if not left:
                    await site.leave()
                    raise
                self.done["asked again"] += 1
            else:
                return

    async def _come_back(self, site: Site) -> None:
        """Started anew, with the newest weights, which the gateways are told before it takes calls."""
        site.engine.weights = self.fleet.weights
        await self._tell("weighed", lambda: self.fleet.weigh(site))
        await site.come_up()
        self.done["came back"] += 1

    async def _tell(self, what: str, do: Callable[[], Awaitable[object]]) -> None:
        try:
            await do()
            self.done[what] += 1
        except Refused as exc:
            self.broken.append(str(exc))

    async def _at(self, begun: float, part: float) -> None:
        await asyncio.sleep(max(0.0, begun + part * self.period - time.monotonic()))
