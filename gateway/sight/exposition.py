"""`/metrics`: everything that is counted, and what the gateway is at this moment, in Prometheus' text format."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from prometheus_client import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from starlette.types import Receive, Scope, Send

from gateway.agents import refuse
from gateway.api.auth import Guard
from gateway.asgi import headers_of, send_whole
from gateway.refusals import MethodNotAllowed, Refusal
from gateway.routes import Page
from gateway.sight.names import Name
from gateway.sight.tally import Sample

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
# Whoever may read traces may know how many there are; a key for Prometheus need not be able to change anything.
_NEEDS: Final = "trace:read"


class Source(Protocol):
    """One metric with its numbers as they are now."""

    @property
    def name(self) -> Name: ...
    def samples(self) -> Iterable[Sample]: ...


def metric_of(source: Source) -> Metric:
    name = source.name
    full = name.full.removesuffix("_total") if name.kind == "counter" else name.full
    metric = Metric(full, name.meaning, name.kind)
    ending = "_total" if name.kind == "counter" else ""
    for suffix, values, number in source.samples():
        labels = (*name.labels, "le") if suffix == "_bucket" else name.labels
        metric.add_sample(full + (suffix or ending), dict(zip(labels, values, strict=True)), number)
    return metric


def text(metrics: Iterable[Metric]) -> bytes:
    return generate_latest(_Told([metric for metric in metrics if metric.samples]))


class _Told(Collector):
    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


def metrics_page(metrics: Callable[[], Awaitable[Sequence[Metric]]], guard: Guard | None) -> Page:
    """Without a guard it is for everybody. Where administration has a listener of its own, it is there."""
    return Page("/metrics", MetricsEndpoint(metrics, guard), needs="open" if guard is None else _NEEDS, inward=True)


class MetricsEndpoint:
    """A class, so that Starlette calls it as the ASGI application it is."""

    def __init__(self, metrics: Callable[[], Awaitable[Sequence[Metric]]], guard: Guard | None) -> None:
        self._metrics = metrics
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if self._guard is not None:
                (await self._guard.caller(scope, headers_of(scope))).check(_NEEDS)
            if scope["method"] not in ("GET", "HEAD"):
                raise MethodNotAllowed(f"{scope['path']} takes GET, not {scope['method']}.")
        except Refusal as refusal:
            await refuse(scope, send, refusal)
            return
        body = await asyncio.to_thread(text, await self._metrics())
        await send_whole(send, 200, body, [("content-type", CONTENT_TYPE)])
