"""`/api/sessions/{id}/agents`: which agents of a harness made a session's calls."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Response

from gateway.api.encoding import encode
from gateway.api.listing import JSON
from gateway.api.parts import Parts
from gateway.api.scoped import needs
from gateway.sessions import check_session_id
from storage.samples.agents import AgentCalls, agents_of

router = APIRouter(tags=["sessions"], dependencies=[needs("trace:read")])


@dataclass(frozen=True, slots=True)
class SessionAgents:
    items: tuple[AgentCalls, ...]
    complete: bool


@router.get("/sessions/{session_id}/agents", response_model=SessionAgents)
async def list_session_agents(session_id: Annotated[str, Path()], parts: Parts) -> Response:
    """A session's calls by agent and sub-agent, as its harness names them. Whoever called first comes first."""
    await parts.sessions.get(check_session_id(session_id))
    complete = await parts.complete()
    traces = await parts.store.whole_session(session_id)
    told = SessionAgents(agents_of(traces), complete)
    return Response(await asyncio.to_thread(encode, told), media_type=JSON)
