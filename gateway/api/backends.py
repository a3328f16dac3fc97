"""`/api/admin/backends`: which there are and how they do; adding, changing, draining and removing them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request, Response

from adapters.server import Server
from gateway.api.backend_status import BackendStatus, status_of
from gateway.api.backend_url import own_addresses
from gateway.api.changed_backend import ChangedBackend, check_source, settings_after
from gateway.api.inputs import Wait
from gateway.api.listing import json_answer
from gateway.api.new_backend import NewBackend, backend_of
from gateway.api.parts import ApiParts, Parts
from gateway.api.scoped import needs
from gateway.backend import Backend
from gateway.backends import BackendExists, UnknownBackend
from gateway.known_backends import stored_of
from gateway.refusals import Refusal
from gateway.settings import BackendSettings
from gateway.upstream import UpstreamError
from storage.errors import StorageError
from storage.records import BackendState

router = APIRouter(prefix="/admin/backends", tags=["administration"], dependencies=[needs("admin")])

BackendName = Annotated[str, Path(description="The backend's name, which may have slashes in it.")]
WaitForEmpty = Annotated[Wait, Query(description="Seconds to wait for it to be empty (`drained`).")]

_LOOK_EVERY: Final = 0.5


class NoInferenceServer(Refusal):
    """Something answers there, and not as an inference server does."""

    status = 400
    code = "no_inference_server"


@dataclass(frozen=True, slots=True)
class BackendList:
    items: tuple[BackendStatus, ...]
    next: str | None = None
    complete: bool = True


@router.get("", response_model=BackendList)
async def list_backends(parts: Parts) -> Response:
    return json_answer(BackendList(await statuses(parts)))


@router.post("", status_code=201, response_model=BackendStatus)
async def add_backend(body: NewBackend, request: Request, parts: Parts) -> Response:
    """Ask a server what it is, and let it serve if it answers as an inference server does."""
    backend = await backend_of(body, environ=parts.environ, own=own_addresses(request, parts.settings))
    if parts.backends.find(backend.name) is not None:
        # Told before it is asked; `add` says so again where another has come meanwhile.
        raise BackendExists(f"A backend named `{backend.name}` exists already; remove it first.")
    await _prove(parts, backend)
    if body.weight_version is not None:
        await parts.weights.introduce(backend, body.weight_version)
    parts.backends.add(backend)
    try:
        await parts.store.backends.put(stored_of(backend))
    except StorageError:
        parts.backends.remove(backend.name)
        raise
    return await _told(parts, backend, 201)


@router.patch("/{name:path}", response_model=BackendStatus)
async def change_backend(name: BackendName, body: ChangedBackend, request: Request, parts: Parts) -> Response:
    """From the next call on. At another address it is asked what it is first, and stays as it was if it does not say.

    Of one that stands in the configuration the weight alone; null is the configured one.
    """
    backend = parts.backends.get(name)
    told = body.told()
    check_source(backend, told)
    if backend.source == "config":
        await _keep(parts, backend, told, weight=body.weight)
        backend.weight = body.weight
        return await _told(parts, backend)
    own = own_addresses(request, parts.settings)
    settings = await settings_after(backend, told, environ=parts.environ, own=own)
    changed = Backend(settings, source="api", state=backend.state)
    if settings != backend.settings:
        await _prove(parts, changed)
        await _keep(parts, changed, told)
        backend.become(settings)
        backend.server = backend.known_as = changed.server
    return await _told(parts, backend)


@router.post("/{name:path}/drain", response_model=BackendStatus)
async def drain_backend(name: BackendName, parts: Parts, wait: WaitForEmpty = 0) -> Response:
    """No session begins there any more; those that it has go on there until they end. Told again, it only waits."""
    backend = parts.backends.get(name)
    await _set_state(parts, backend, "draining")
    until = time.monotonic() + wait
    while True:
        status = await _status(parts, backend)
        if status.drained or time.monotonic() >= until or parts.stopping() or backend.state != "draining":
            return json_answer(status)
        await asyncio.sleep(min(_LOOK_EVERY, wait))


@router.post("/{name:path}/undrain", response_model=BackendStatus)
async def undrain_backend(name: BackendName, parts: Parts) -> Response:
    """It takes new sessions again: one that drains, and one of the configuration that was removed."""
    backend = parts.backends.get(name)
    await _set_state(parts, backend, "serving")
    return await _told(parts, backend)


@router.delete("/{name:path}", status_code=204, response_class=Response)
async def remove_backend(name: BackendName, parts: Parts) -> None:
    """It gets no more calls: those in flight there go on to their end, its sessions go on at others.

    One that stands in the configuration stays in the list as `removed`, until it is undrained.
    """
    backend = parts.backends.get(name)
    if backend.source == "config":
        await _set_state(parts, backend, "removed")
        return
    parts.backends.remove(name)
    await parts.store.backends.remove(name)


@router.post("/{name:path}/probe", response_model=BackendStatus)
async def probe_backend(name: BackendName, parts: Parts) -> Response:
    """Ask it again what it is."""
    backend = parts.backends.get(name)
    try:
        await parts.backends.ask_again(backend)
    except UpstreamError as exc:
        parts.backends.refused(backend, exc.why)
        raise
    parts.backends.is_up(backend)
    return await _told(parts, backend)


async def statuses(parts: ApiParts) -> tuple[BackendStatus, ...]:
    return tuple([await _status(parts, backend) for backend in parts.backends.all()])


async def _prove(parts: ApiParts, backend: Backend) -> None:
    """One that is to serve, asked before it does. Raises UpstreamError, InvalidRequest, TokenizerUnavailable."""
    if backend.settings.tokenizer is not None:
        # A wrong one would be found out by the first call, whose trace then has no ids.
        await parts.tokenizers.warm([backend.settings.tokenizer])
    server = await parts.backends.server(backend)
    if not _is_inference_server(server, backend.settings):
        what = f"What is at {backend.settings.url} answers, but names no engine and no models"
        raise NoInferenceServer(f"{what}: it may be no inference server. If it is one, say its `engine`.")


def _is_inference_server(server: Server, settings: BackendSettings) -> bool:
    return server.known != "assumed" or bool(server.models) or settings.engine is not None


async def _set_state(parts: ApiParts, backend: Backend, state: BackendState) -> None:
    await _keep(parts, backend, ["state"], state=state)
    backend.state = state


async def _keep(parts: ApiParts, backend: Backend, changed: Collection[str], **values: object) -> None:
    """For the other gateways, and for after a restart. Raises UnknownBackend, StorageError."""
    row = replace(stored_of(backend), **values)  # type: ignore[arg-type]
    if not await parts.store.backends.change(row, changed):
        raise UnknownBackend(f"The backend `{backend.name}` was removed at another gateway.")


async def _told(parts: ApiParts, backend: Backend, status: int = 200) -> Response:
    return json_answer(await _status(parts, backend), status)


async def _status(parts: ApiParts, backend: Backend) -> BackendStatus:
    sessions = None
    if backend.state == "draining":
        with suppress(StorageError):  # What else there is to tell is wanted most just then.
            sessions = await parts.store.backends.open_sessions(backend.name)
    return status_of(backend, parts.backends, open_sessions=sessions)
