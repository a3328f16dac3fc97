"""All that one gateway tells when it is scraped: what it counted, what it is now, and what its process takes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from prometheus_client import GCCollector, Metric, PlatformCollector, ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from gateway.sight.exposition import metric_of
from gateway.sight.metrics import Metrics
from gateway.sight.moment import Moment


class Told:
    """Asked for it, by a scrape or by another worker."""

    def __init__(self, metrics: Metrics, moment: Moment) -> None:
        self._metrics = metrics
        self._moment = moment
        nowhere = CollectorRegistry()  # Each registers itself somewhere; the default would be shared by all gateways.
        self._process: tuple[Collector, ...] = (
            ProcessCollector(registry=nowhere),
            PlatformCollector(registry=nowhere),
            GCCollector(registry=nowhere),
        )

    async def __call__(self) -> Sequence[Metric]:
        counted = [metric_of(each) for each in (*self._metrics, *self._moment.read())]
        return [*counted, *await asyncio.to_thread(self._of_the_machine)]

    def _of_the_machine(self) -> list[Metric]:
        """What the system has to be asked for."""
        disks = [metric_of(each) for each in self._moment.disks()]
        return [*disks, *(metric for each in self._process for metric in each.collect())]
