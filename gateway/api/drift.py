"""`/api/drift` and a session's own: where prompts stop extending what was sampled, why, and how often."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Response

from adapters.schema import Session
from gateway.api.encoding import encode
from gateway.api.listing import JSON
from gateway.api.parts import ApiParts, Parts
from gateway.api.scoped import needs
from gateway.api.sessions import ChosenSessions
from gateway.backends import UnknownBackend
from gateway.dialects.recorded import requests_of
from gateway.sessions import check_session_id
from gateway.text_encoder import TokenizerUnavailable
from storage.records import SessionQuery
from storage.samples.drift import AgentDrift, Decode, SessionDrift, Summary, drift_of

router = APIRouter(tags=["drift"], dependencies=[needs("trace:read")])

_LONGEST_S: Final = 10.0
"""After so long a page ends, so that nobody's patience does."""
_STEP: Final = 8
"""Sessions: a page can end after each such step."""


class DriftFilters(ChosenSessions):
    agent: str | None = None
    """Whose calls."""

    def query(self) -> SessionQuery:
        return SessionQuery(**self.model_dump(exclude={"agent"}))


@dataclass(frozen=True, slots=True)
class DriftPage:
    items: tuple[AgentDrift, ...]
    sessions: int
    """How many were looked at for this page; the next one's sums are of other sessions."""
    next: str | None
    complete: bool


@router.get("/sessions/{session_id}/drift", response_model=SessionDrift)
async def session_drift(session_id: Annotated[str, Path()], parts: Parts) -> Response:
    """Each call of a session: whether it extends an earlier one token for token, and if not where and why."""
    session = await parts.sessions.get(check_session_id(session_id))
    return await _json(await _drift(session, parts))


@router.get("/drift", response_model=DriftPage)
async def list_drift(filters: Annotated[DriftFilters, Query()], parts: Parts) -> Response:
    """Drift by run and agent, summed over `limit` sessions in the order of their making, or as many as 10 s allow.

    `agent` is what the session's metadata say; else the harness's name; else what its user agent begins with.
    """
    query, summary, seen = filters.query(), Summary(filters.agent), 0
    deadline = time.monotonic() + _LONGEST_S
    complete = await parts.complete()
    while True:
        page = await parts.sessions.list(replace(query, limit=min(_STEP, filters.limit - seen)))
        for session in page.items:  # One at a time: a session's traces may be many megabytes.
            summary.add(await _drift(session, parts))
        seen += len(page.items)
        if page.next is None or seen >= filters.limit or time.monotonic() > deadline:
            return await _json(DriftPage(summary.agents(), seen, page.next, complete))
        query = replace(query, cursor=page.next)


async def _drift(session: Session, parts: ApiParts) -> SessionDrift:
    traces = await parts.store.whole_session(session.session_id)
    decoders = {name: await _decoder(name, parts) for name in {trace.backend for trace in traces}}
    return await asyncio.to_thread(
        drift_of, session, traces, requests_of(traces), lambda trace: decoders[trace.backend]
    )


async def _decoder(backend: str | None, parts: ApiParts) -> Decode | None:
    """Of a backend that is gone, or whose tokenizer nobody named or can load, the texts are those of the record."""
    try:
        tokenizer = parts.backends.get(backend or "").settings.tokenizer
        return None if tokenizer is None else await parts.tokenizers.decoder(tokenizer)
    except (UnknownBackend, TokenizerUnavailable):
        return None


async def _json(told: SessionDrift | DriftPage) -> Response:
    return Response(await asyncio.to_thread(encode, told), media_type=JSON)
