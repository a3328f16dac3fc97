"""`/api/admin/pause` and `/api/admin/resume`: calls wait while the weights below them change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Self

from fastapi import APIRouter, Request, Response
from pydantic import Field, model_validator

from adapters.control import EnginePause
from gateway.api.auditing import name_target
from gateway.api.inputs import Label, Strict, Wait
from gateway.api.listing import json_answer
from gateway.api.parts import Parts
from gateway.api.scoped import needs
from gateway.weights.control import PauseStatus, Resumed
from storage.ids import new_id
from storage.weights import PauseMode, StoredPause

router = APIRouter(prefix="/admin", tags=["weights"], dependencies=[needs("admin")])

BackendNames = Annotated[tuple[Label, ...], Field(min_length=1, max_length=1000)]
_LONGEST: Final = 86_400
Seconds = Annotated[float, Field(gt=0, le=_LONGEST, allow_inf_nan=False)]


class NewPause(Strict):
    """Which backends take no new calls from now on, and what becomes of these calls."""

    pause_id: Label | None = None
    """One's own, under which a pause that is told again is the same one, its time begun anew. Made up unless given."""
    owner: Label | None = None
    """Whose it is, for people."""
    backends: BackendNames | None = None
    """By name; null: all, those that come later too."""
    mode: PauseMode = "hold"
    """New calls wait for the end of the pause, or get a 429 with `Retry-After`."""
    move: bool = False
    """Sessions of a paused backend go to another that is not, instead of waiting for theirs."""
    max_hold: Seconds | None = None
    """A call waits no longer, and gets the 429 then; null: as long as the pause lasts."""
    max_held: Annotated[int, Field(ge=0, le=1_000_000)] = 10_000
    """So many calls wait at one gateway; others get the 429."""
    ttl: Seconds = 600.0
    """After so many seconds the pause ends by itself: its owner may have died."""
    wait: Wait = 0.0
    """For so many seconds the answer waits for calls in flight to end; `drained` says whether they have."""
    engine: EnginePause | None = None
    """Pauses the engines themselves too, after that wait: requests that they still have end, are kept, or are cut."""

    def pause(self) -> StoredPause:
        now = datetime.now(UTC)  # The database has its own clock, which counts.
        return StoredPause(
            pause_id=self.pause_id or new_id(),
            owner=self.owner,
            backends=self.backends,
            mode=self.mode,
            move=self.move,
            max_hold=self.max_hold,
            max_held=self.max_held,
            engine=self.engine,
            created_at=now,
            expires_at=now,
        )


class Resume(Strict):
    """Which pauses end: one, all, or all as far as some backends are concerned."""

    pause_id: Label | None = None
    backends: BackendNames | None = None
    """These alone go on; null: all that the pause has."""
    all: bool = False
    """Every pause, whoever's it is."""
    flush: bool = False
    """Has the engines empty their caches before they go on: what is in them was computed with other weights."""
    force: bool = False
    """Ends it even where an engine refuses to go on."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.pause_id is None and self.backends is None and not self.all:
            raise ValueError("say which: pause_id, backends, or all=true")
        return self


@dataclass(frozen=True, slots=True)
class PauseList:
    items: tuple[PauseStatus, ...]
    next: str | None = None
    complete: bool = True


@router.get("/pause", response_model=PauseList)
async def list_pauses(parts: Parts) -> Response:
    """What is paused, how many calls wait, and how many are still in flight."""
    return json_answer(PauseList(await parts.weights.pauses()))


@router.post("/pause", response_model=PauseStatus)
async def pause(body: NewPause, request: Request, parts: Parts) -> Response:
    """Hold new calls, at every gateway of the database, and wait for those in flight.

    Several pauses may stand over one backend: it goes on when all of them have ended.
    """
    wanted = body.pause()
    name_target(request, wanted.pause_id)

    async def given_up() -> bool:
        return parts.stopping() or await request.is_disconnected()

    return json_answer(await parts.weights.pause(wanted, ttl=body.ttl, wait=body.wait, given_up=given_up))


@router.post("/resume", response_model=Resumed)
async def resume(body: Resume, request: Request, parts: Parts) -> Response:
    """Let calls go on. A pause that has ended already is no error: `released` says which ended now."""
    name_target(request, body.pause_id or ", ".join(body.backends or ("all",))[:256])
    return json_answer(await parts.weights.resume(body.pause_id, body.backends, flush=body.flush, force=body.force))
