"""`/api/admin/status`: how this gateway is doing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from fastapi import APIRouter, Response

from gateway.api.backend_status import BackendStatus
from gateway.api.backends import statuses
from gateway.api.listing import json_answer
from gateway.api.parts import ApiParts, Parts
from gateway.api.scoped import needs
from gateway.settings import Settings, redacted
from gateway.sight.concerns import concerns
from gateway.sight.tally import Histogram
from gateway.version import gateway_version
from storage.audit import Action, AuditQuery
from storage.errors import StorageError
from storage.records import GatewayHeard, StoreCounts

router = APIRouter(prefix="/admin", tags=["administration"], dependencies=[needs("admin")])


_LAST_CHANGES: Final = 5


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Calls whose agent got an end, and those of them whose trace was committed first."""

    answered: int
    recorded: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class FirstToken:
    """How long a backend's streams took to begin: bounds that half of them, and 99 of 100, do not exceed."""

    backend: str
    streams: int
    p50: float
    """Seconds, since the gateway began."""
    p99: float


@dataclass(frozen=True, slots=True)
class GatewayStatus:
    concerns: tuple[str, ...]
    """What is wrong, a sentence each; none where all is well."""
    gateway_id: str
    version: str
    started_at: datetime
    uptime_seconds: float
    calls: CallCounts
    """All numbers are this process's own: with `--workers`, or behind a balancer, whichever was asked."""
    store: StoreCounts
    backends: tuple[BackendStatus, ...]
    gateways: tuple[GatewayHeard, ...] | None
    """All that write to this database, as last heard of, this one too; null where the database can't tell."""
    first_token: tuple[FirstToken, ...]
    event_loop_lag_p99: float | None
    """Seconds: by how much everything in this process was held up at worst, but for one time in a hundred."""
    changes: tuple[Action, ...] | None
    """What administrators did last; null where the database can't tell."""
    settings: Mapping[str, Any]


@router.get("/status", response_model=GatewayStatus)
async def status(parts: Parts) -> Response:
    counters, store, backends = parts.counters, parts.store.counts(), await statuses(parts)
    gateways, metrics = await _gateways(parts), parts.sight.metrics
    others = tuple(each for each in gateways or () if each.gateway_id != parts.gateway_id)
    told = GatewayStatus(
        concerns=concerns(store, counters, backends, others, parts.weights.standing),
        gateway_id=parts.gateway_id,
        version=gateway_version(),
        started_at=parts.started_at,
        uptime_seconds=time.monotonic() - parts.started,
        calls=CallCounts(counters.answered, counters.recorded, counters.in_flight),
        store=store,
        backends=backends,
        gateways=gateways,
        first_token=tuple(_first_tokens(metrics.first_token, backends)),
        event_loop_lag_p99=metrics.loop_lag.quantile(0.99),
        changes=await _changes(parts),
        settings=_public(parts.settings),
    )
    return json_answer(told)


async def _gateways(parts: ApiParts) -> tuple[GatewayHeard, ...] | None:
    try:
        return await parts.patience.wait_for(parts.store.gateways)
    except StorageError:
        return None  # What else there is to tell is wanted most just then.


async def _changes(parts: ApiParts) -> tuple[Action, ...] | None:
    try:
        return (await parts.patience.wait_for(lambda: parts.audit.page(AuditQuery(limit=_LAST_CHANGES)))).items
    except StorageError:
        return None


def _first_tokens(times: Histogram, backends: Sequence[BackendStatus]) -> Iterator[FirstToken]:
    for backend in backends:
        labels = (backend.name,)
        half, nearly_all = times.quantile(0.5, labels), times.quantile(0.99, labels)
        if half is not None and nearly_all is not None:
            yield FirstToken(backend.name, times.count(labels), half, nearly_all)


def _public(settings: Settings) -> dict[str, Any]:
    """The settings as they may be shown: of secrets only whether they are set."""
    shown = settings.model_dump(mode="json", exclude={"keys", "admin_key", "backends"})
    return shown | {
        "database": redacted(settings.database).partition("?")[0],
        "keys": len(settings.keys),
        "admin_key": settings.admin_key is not None,
    }
