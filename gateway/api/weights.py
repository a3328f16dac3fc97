"""`/api/admin/weight-version` and `/api/admin/weight-events`: which weights the backends have, and had."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator

from gateway.api.inputs import Cursor, Label, Limit, Strict, Timestamp
from gateway.api.listing import json_answer
from gateway.api.parts import ApiParts, Parts
from gateway.api.pauses import BackendNames
from gateway.api.scoped import needs
from gateway.call import MIXED
from storage.records import PAGE_LIMIT
from storage.weights import EventQuery, WeightEvent, WeightSource

router = APIRouter(prefix="/admin", tags=["weights"], dependencies=[needs("admin")])


def _no_word_of_ours(version: str) -> str:
    if version == MIXED:
        raise ValueError(f"`{MIXED}` is what traces of several versions have; name a version otherwise")
    return version


WeightVersion = Annotated[Label, AfterValidator(_no_word_of_ours)]


class NewWeightVersion(Strict):
    """Which weights backends have from now on."""

    weight_version: WeightVersion
    """Any string; `min_weight_version` of samples compares whole numbers as numbers."""
    backends: BackendNames | None = None
    """By name; null: all."""


class EventFilters(Strict):
    """A field that is left out does not filter."""

    backend: Label | None = None
    since: Timestamp | None = None
    until: Timestamp | None = None
    limit: Limit = PAGE_LIMIT
    cursor: Cursor | None = None


@dataclass(frozen=True, slots=True)
class BackendVersion:
    backend: str
    weight_version: str | None
    """Null: nobody has said."""
    source: WeightSource | None
    """Who said so last: an administrator, an answer of its engine's, or the server when it was asked what it is."""
    changed_at: datetime | None


@dataclass(frozen=True, slots=True)
class WeightVersions:
    weight_version: str | None
    """The one that all backends have; null where they differ, or nobody has said."""
    items: tuple[BackendVersion, ...]


@dataclass(frozen=True, slots=True)
class EventList:
    items: tuple[WeightEvent, ...]
    next: str | None
    complete: bool = True


@router.get("/weight-version", response_model=WeightVersions)
async def weight_versions(parts: Parts) -> Response:
    """The version of each backend. Of an answer what its own engine says stands above it."""
    return json_answer(await _versions(parts))


@router.put("/weight-version", response_model=WeightVersions)
@router.post("/weight-version", response_model=WeightVersions)
async def set_weight_version(body: NewWeightVersion, parts: Parts) -> Response:
    """Calls that are dispatched from now on have it; those in flight keep theirs."""
    await parts.weights.set_version(body.weight_version, body.backends)
    return json_answer(await _versions(parts))


@router.get("/weight-events", response_model=EventList)
async def weight_events(filters: Annotated[EventFilters, Query()], parts: Parts) -> Response:
    """Every change of a backend's version, the oldest first: which one it had when."""
    page = await parts.weights.events(EventQuery(**filters.model_dump()))
    return json_answer(EventList(page.items, page.next))


async def _versions(parts: ApiParts) -> WeightVersions:
    known = {told.backend: told for told in await parts.weights.current()}
    items = []
    for name in sorted(backend.name for backend in parts.backends.all()):
        told = known.get(name)
        items.append(
            BackendVersion(name, None, None, None)
            if told is None
            else BackendVersion(name, told.weight_version, told.source, told.changed_at)
        )
    versions = {item.weight_version for item in items}
    return WeightVersions(versions.pop() if len(versions) == 1 else None, tuple(items))
