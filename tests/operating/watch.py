"""Looks at all backends some times a second: how many calls each is at, while none is paused."""

from __future__ import annotations

import asyncio
import time

from tests.operating.fleet import Fleet
from tests.operating.judgement import Sample
from tests.operating.trainer import Trainer

_EVERY_S = 0.2
# After a pause all held calls begin at once, and are spread again when they have ended.
_SETTLES_S = 3.0


async def watch(fleet: Fleet, trainer: Trainer, samples: list[Sample]) -> None:
    """Until it is cancelled."""
    while True:
        now = time.monotonic()
        if trainer.paused is None and now - trainer.resumed > _SETTLES_S:
            samples.append(Sample(now, {site.name: site.in_flight for site in fleet.serving()}))
        await asyncio.sleep(_EVERY_S)
