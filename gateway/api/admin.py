"""`/api/admin/status`: how this gateway is doing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Response

from gateway.api.backend_status import BackendStatus
from gateway.api.backends import statuses
from gateway.api.listing import json_answer
from gateway.api.parts import ApiParts, Parts
from gateway.api.scoped import needs
from gateway.settings import Settings, redacted
from gateway.version import gateway_version
from storage.errors import StorageError
from storage.records import GatewayHeard, StoreCounts

router = APIRouter(prefix="/admin", tags=["administration"], dependencies=[needs("admin")])


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Calls whose agent got an end, and those of them whose trace was committed first."""

    answered: int
    recorded: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class GatewayStatus:
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
    settings: Mapping[str, Any]


@router.get("/status", response_model=GatewayStatus)
async def status(parts: Parts) -> Response:
    counters = parts.counters
    told = GatewayStatus(
        gateway_id=parts.gateway_id,
        version=gateway_version(),
        started_at=parts.started_at,
        uptime_seconds=time.monotonic() - parts.started,
        calls=CallCounts(counters.answered, counters.recorded, counters.in_flight),
        store=parts.store.counts(),
        backends=await statuses(parts),
        gateways=await _gateways(parts),
        settings=_public(parts.settings),
    )
    return json_answer(told)


async def _gateways(parts: ApiParts) -> tuple[GatewayHeard, ...] | None:
    try:
        return await parts.patience.wait_for(parts.store.gateways)
    except StorageError:
        return None  # What else there is to tell is wanted most just then.


def _public(settings: Settings) -> dict[str, Any]:
    """The settings as they may be shown: of secrets only whether they are set."""
    shown = settings.model_dump(mode="json", exclude={"keys", "admin_key", "backends"})
    return shown | {
        "database": redacted(settings.database).partition("?")[0],
        "keys": len(settings.keys),
        "admin_key": settings.admin_key is not None,
    }
