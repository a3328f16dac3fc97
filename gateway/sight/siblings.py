"""The workers of one `serve --workers N`, so that whoever is asked for metrics tells those of all.

They share one port, and a scrape lands on any. So each also listens on a socket in a folder that only they know, and
whoever is scraped asks the others there. Nothing is shared while calls run: a library's files in memory that all
write to would cost each call more, keep the numbers of the dead, and have none that are only read when asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client import Metric

from gateway.sight import names

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 2.0
_WORKER: Final = "worker"

Own = Callable[[], Awaitable[Sequence[Metric]]]


class _Told(msgspec.Struct, array_like=True):
    """A metric on its way from one worker to another."""

    name: str
    meaning: str
    kind: str
    samples: list[tuple[str, dict[str, str], float]]


@dataclass(frozen=True, slots=True)
class Siblings:
    """Worker `number` of `count`, from 1 on."""

    folder: Path
    number: int
    count: int

    @asynccontextmanager
    async def told(self, own: Own) -> AsyncIterator[None]:
        """While this is open the others are told what `own` says."""

        async def tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                told = [_Told(m.name, m.documentation, m.type, [s[:3] for s in m.samples]) for m in await own()]
                writer.write(msgspec.msgpack.encode(told))
                await writer.drain()
            finally:
                writer.close()

        path = self._socket_of(self.number)
        await asyncio.to_thread(path.unlink, missing_ok=True)  # That of a worker of this number who was killed.
        server = await asyncio.start_unix_server(tell, path)
        try:
            yield
        finally:
            server.close()

    async def all(self, own: Own) -> list[Metric]:
        """The metrics of all workers, each sample with its `worker`; and which of them did not answer."""
        others = [number for number in range(1, self.count + 1) if number != self.number]
        answers = await asyncio.gather(own(), *(self._ask(number) for number in others))
        by_worker = dict(zip((self.number, *others), answers, strict=True))
        merged: dict[str, Metric] = {}
        up = Metric(names.WORKER_UP.full, names.WORKER_UP.meaning, names.WORKER_UP.kind)
        for number, metrics in sorted(by_worker.items()):
            worker = {_WORKER: str(number)}
            up.add_sample(names.WORKER_UP.full, worker, float(metrics is not None))
            for metric in metrics or ():
                into = merged.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                for sample in metric.samples:
                    into.add_sample(sample.name, {**sample.labels, **worker}, sample.value)
        return [*merged.values(), up]

    async def _ask(self, number: int) -> Sequence[Metric] | None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self._socket_of(number))
                try:
                    told = msgspec.msgpack.decode(await reader.read(), type=list[_Told])
                finally:
                    writer.close()
        except (OSError, TimeoutError, msgspec.DecodeError) as exc:
            logger.warning("worker %d does not tell its metrics: %s", number, exc or type(exc).__name__)
            return None
        return [_metric(each) for each in told]

    def _socket_of(self, number: int) -> Path:
        return self.folder / f"{number}.sock"


@asynccontextmanager
async def told_by_all(own: Own, siblings: Siblings | None) -> AsyncIterator[Own]:
    """What a scrape is answered with: `own`, and those of the siblings, which are told `own` while this is open."""
    if siblings is None:
        yield own
        return
    async with siblings.told(own):
        yield partial(siblings.all, own)


def _metric(told: _Told) -> Metric:
    metric = Metric(told.name, told.meaning, told.kind)
    for name, labels, value in told.samples:
        metric.add_sample(name, labels, value)
    return metric
