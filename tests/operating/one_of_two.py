"""Of two backends one is dead, again and again, and the other serves all: nobody fails, and who is back gets calls."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tests.operating.fleet import Fleet

# It is looked after each second, and left in peace for a little longer each time that it is found dead.
_BACK_WITHIN_S: Final = 12.0


@dataclass(slots=True)
class OneOfTwo:
    """In each cycle of `period` seconds one of the two is dead for a third of the time."""

    fleet: Fleet
    period: float
    done: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    longest_return: float = 0.0
    """Seconds until one that was back got a call."""

    async def cycle(self, number: int) -> None:
        site = [*self.fleet.sites.values()][number % 2]
        await asyncio.sleep(0.2 * self.period)
        await site.die()
        self.done["died"] += 1
        await asyncio.sleep(self.period / 3)
        await site.come_up()
        self.done["came back"] += 1
        since = time.monotonic()
        while time.monotonic() < since + _BACK_WITHIN_S:
            if any(said.backend == site.name and said.arrived > since for said in reversed(self.fleet.emissions)):
                break
            await asyncio.sleep(0.05)
        else:
            self.broken.append(f"{site.name} was back for {_BACK_WITHIN_S:g} s and got no call")
        self.longest_return = max(self.longest_return, time.monotonic() - since)
        await asyncio.sleep(0.4 * self.period)
