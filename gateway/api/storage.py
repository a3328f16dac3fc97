"""`/api/admin/prune` and `/api/admin/storage`: what goes, and what is kept takes on disk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final, Self, get_args

from fastapi import APIRouter, Response
from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from adapters.schema import SessionStatus
from gateway.api.inputs import Label, RunId, Strict, separated
from gateway.api.listing import json_answer
from gateway.api.parts import Parts
from gateway.api.scoped import needs
from storage.prune import PruneQuery
from storage.sizes import RunSize
from storage.upkeep import Pruned

router = APIRouter(prefix="/admin", tags=["administration"], dependencies=[needs("admin")])

SECONDS: Final = 20.0
"""For one request; who is told that there is `more` asks again."""
_OLDEST: Final = 100 * 365 * 86_400

AnyStatuses = Annotated[
    tuple[SessionStatus, ...],
    BeforeValidator(separated),
    Field(min_length=1),
    WithJsonSchema(
        {"type": "array", "minItems": 1, "items": {"type": "string", "enum": list(get_args(SessionStatus))}}
    ),
]


class Prune(Strict):
    """Which sessions are to go; at least an age or a run has to be named."""

    older_than: Annotated[float, Field(ge=0, le=_OLDEST, allow_inf_nan=False)] | None = None
    """Seconds in which nothing happened to the session: no call, no end."""
    run_id: RunId | None = None
    """Empty: of no run."""
    status: AnyStatuses = ("finished", "failed", "aborted")
    """A call that named no session counts as `finished`."""
    delivered_to: Label | None = None
    """Only what this consumer has acknowledged."""
    dry_run: bool = False
    """Tells what would go, and deletes nothing."""

    @model_validator(mode="after")
    def _not_everything(self) -> Self:
        self.query()
        return self

    def query(self) -> PruneQuery:
        """Raises ValueError."""
        return PruneQuery(
            older_than=None if self.older_than is None else timedelta(seconds=self.older_than),
            run_id=self.run_id,
            statuses=self.status,
            delivered_to=self.delivered_to,
        )


@dataclass(frozen=True, slots=True)
class StorageReport:
    bytes: int
    """Of the database on disk, indexes and all."""
    free_bytes: int | None
    """Of them those that nothing stands in; null where the database does not say."""
    runs: tuple[RunSize, ...]
    """The largest first."""


@router.post("/prune", response_model=Pruned)
async def prune(body: Prune, parts: Parts) -> Response:
    """Delete whole sessions that are over, beside the calls, for at most 20 seconds; `more` says to ask again.

    Sessions that a consumer has claimed at the moment stay, and those with a call that runs.
    """
    query = body.query()
    upkeep = parts.store.upkeep
    return json_answer(await (upkeep.preview(query) if body.dry_run else upkeep.prune(query, seconds=SECONDS)))


@router.get("/storage", response_model=StorageReport)
async def storage(parts: Parts) -> Response:
    """What each run takes on disk. It looks at every trace's row: seconds, where there are a million."""
    sizes = await parts.store.upkeep.sizes()
    return json_answer(StorageReport(sizes.database.bytes, sizes.database.free_bytes, sizes.runs))
