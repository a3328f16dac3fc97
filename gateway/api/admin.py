"""`/api/admin`: the backends, and how this gateway is doing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from gateway.api.backend_status import BackendStatus, status_of
from gateway.api.backend_url import host_and_port
from gateway.api.listing import json_answer
from gateway.api.new_backend import NewBackend, backend_of, stored
from gateway.api.parts import ApiParts, Parts
from gateway.api.scoped import needs
from gateway.backends import BackendExists
from gateway.settings import Settings, redacted
from gateway.upstream import UpstreamError
from gateway.version import gateway_version
from storage.errors import StorageError
from storage.records import GatewayHeard, StoreCounts

router = APIRouter(prefix="/admin", tags=["administration"], dependencies=[needs("admin")])

BackendName = Annotated[str, Path(description="The backend's name, which may have slashes in it.")]


@dataclass(frozen=True, slots=True)
class BackendList:
    items: tuple[BackendStatus, ...]
    next: str | None = None
    complete: bool = True


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


@router.get("/backends", response_model=BackendList)
async def list_backends(parts: Parts) -> Response:
    return json_answer(BackendList(_statuses(parts)))


@router.post("/backends", status_code=201, response_model=BackendStatus)
async def add_backend(body: NewBackend, request: Request, parts: Parts) -> Response:
    """Ask a server what it is, and let it serve if it answers."""
    backend = await backend_of(body, environ=parts.environ, own=_own_addresses(request, parts.settings))
    if any(other.name == backend.name for other in parts.backends.all()):
        # Told before it is asked; `add` says so again where another has come meanwhile.
        raise BackendExists(f"A backend named `{backend.name}` exists already; remove it first.")
    if body.tokenizer is not None:
        # A wrong one would be found out by the first call, whose trace then has no ids.
        await parts.tokenizers.warm([body.tokenizer])
    await parts.backends.server(backend)
    parts.backends.add(backend)
    try:
        await parts.store.add_backend(stored(backend.settings))
    except StorageError:
        parts.backends.remove(backend.name)
        raise
    return json_answer(status_of(backend, parts.backends), 201)


@router.delete("/backends/{name:path}", status_code=204, response_class=Response)
async def remove_backend(name: BackendName, parts: Parts) -> None:
    """It gets no more calls; those in flight there go on to their end. A configured one is back after a restart."""
    parts.backends.remove(name)
    await parts.store.remove_backend(name)


@router.post("/backends/{name:path}/probe", response_model=BackendStatus)
async def probe_backend(name: BackendName, parts: Parts) -> Response:
    """Ask it again what it is."""
    backend = parts.backends.get(name)
    try:
        await parts.backends.ask_again(backend)
    except UpstreamError as exc:
        parts.backends.refused(backend, exc.why)
        raise
    parts.backends.is_up(backend)
    return json_answer(status_of(backend, parts.backends))


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
        backends=_statuses(parts),
        gateways=await _gateways(parts),
        settings=_public(parts.settings),
    )
    return json_answer(told)


async def _gateways(parts: ApiParts) -> tuple[GatewayHeard, ...] | None:
    try:
        return await parts.patience.wait_for(parts.store.gateways)
    except StorageError:
        return None  # What else there is to tell is wanted most just then.


def _statuses(parts: ApiParts) -> tuple[BackendStatus, ...]:
    return tuple(status_of(backend, parts.backends) for backend in parts.backends.all())


def _own_addresses(request: Request, settings: Settings) -> list[tuple[str, int]]:
    """Hosts and ports at which this gateway is reached: its listener, its public URL, and as just now."""
    own = [(settings.host, settings.port)]
    server = request.scope.get("server")
    if server is not None and server[1] is not None:
        own += [(server[0], server[1]), (settings.host, server[1])]
    if settings.public_url is not None:
        own.append(host_and_port(settings.public_url))
    return own


def _public(settings: Settings) -> dict[str, Any]:
    """The settings as they may be shown: of secrets only whether they are set."""
    shown = settings.model_dump(mode="json", exclude={"keys", "admin_key", "backends"})
    return shown | {
        "database": redacted(settings.database).partition("?")[0],
        "keys": len(settings.keys),
        "admin_key": settings.admin_key is not None,
    }
