"""`/api/claims`: trainers share the ended sessions of a run, each session going to one of them for good."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from adapters.schema import Purpose
from gateway.api.inputs import GroupSize, Label, Limit, RunId, Statuses, Strict, Wait
from gateway.api.listing import json_answer, with_news
from gateway.api.parts import Parts
from gateway.api.scoped import needs
from storage.records import Claim, ClaimRequest, Page, Unit

router = APIRouter(prefix="/claims", tags=["claims"], dependencies=[needs("trace:read")])

ClaimId = Annotated[str, Path(max_length=128)]
Lease = Annotated[float, Field(gt=0, le=7 * 24 * 3600, allow_inf_nan=False)]
"""Seconds."""


class NewClaim(Strict):
    """What to claim: the next sessions that ended, or complete groups with all their sessions."""

    consumer: Label = "default"
    """Whoever has the same name shares the work. Consumers of other names get everything too."""
    run_id: RunId | None = None
    group_id: Label | None = None
    unit: Unit = "session"
    limit: Limit = 1
    """At most so many sessions or groups."""
    lease_s: Lease = 600
    """For how long they are yours unless you acknowledge or extend the claim."""
    group_size: GroupSize | None = None
    """How many sessions the groups are to have of which no session says it."""
    status: Statuses = ("finished",)
    """Of the sessions that are given. For a group to be complete its sessions may have ended in any way."""
    purpose: Purpose | None = "train"
    """`train` takes also the sessions that say none; null takes all, those of evaluations too."""
    wait: Wait = 0
    """How many seconds to wait for something to claim."""

    def request(self) -> ClaimRequest:
        return ClaimRequest(**self.model_dump(exclude={"status", "wait"}), statuses=self.status)


class Extension(Strict):
    lease_s: Lease
    """Seconds from now."""


@router.post(
    "", status_code=201, response_model=Claim, responses={204: {"description": "There is nothing to claim now."}}
)
async def claim(body: NewClaim, request: Request, parts: Parts) -> Response:
    """Claim sessions or groups that nobody of this consumer has or had: what ended first, first.

    Read them with `claim=` at `/api/samples`, then acknowledge the claim. When its lease ends before that they are
    offered again.
    """
    wanted = body.request()

    async def claimed() -> Page[Claim]:
        made = await parts.store.claims.take(wanted)
        if made is not None:
            parts.sight.claim("made")
        return Page(() if made is None else (made,))

    page = await with_news(claimed, body.wait, request, parts)
    return json_answer(page.items[0], 201) if page.items else Response(status_code=204)


@router.get("/{claim_id}", response_model=Claim)
async def read_claim(claim_id: ClaimId, parts: Parts) -> Response:
    return json_answer(await parts.store.claims.get(claim_id))


@router.post("/{claim_id}/ack", response_model=Claim)
async def acknowledge_claim(claim_id: ClaimId, parts: Parts) -> Response:
    """Have the sessions delivered for good. A 409 says that the lease ran out: somebody else may have them by now."""
    told = await parts.store.claims.acknowledge(claim_id)
    parts.sight.claim("acknowledged")
    return json_answer(told)


@router.post("/{claim_id}/release", response_model=Claim)
async def release_claim(claim_id: ClaimId, parts: Parts) -> Response:
    """Give the sessions back, to be offered again at once."""
    told = await parts.store.claims.release(claim_id)
    parts.sight.claim("released")
    return json_answer(told)


@router.post("/{claim_id}/extend", response_model=Claim)
async def extend_claim(claim_id: ClaimId, body: Extension, parts: Parts) -> Response:
    """Keep the sessions for so many seconds from now."""
    return json_answer(await parts.store.claims.extend(claim_id, body.lease_s))
