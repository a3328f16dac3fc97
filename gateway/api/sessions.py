"""`/api/sessions`: a rollout's session is made here, labelled, read, finished and deleted."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from adapters.schema import Capture, EndedStatus, Purpose, Session, SessionStatus
from gateway.api.encoding import encode
from gateway.api.inputs import (
    Cursor,
    GroupSize,
    JsonObject,
    Label,
    Limit,
    RunId,
    Strict,
    Timestamp,
    Wait,
    Whole,
)
from gateway.api.limits import Budgets, PinnedSampling
from gateway.api.listing import JSON, complete_page, json_answer
from gateway.api.parts import Parts
from gateway.api.rewards import MOST_AT_ONCE, NewReward, told_now
from gateway.api.scoped import AskedBy, needs
from gateway.sessions import SESSION_ID_PATTERN, check_session_id
from storage.ids import new_id
from storage.records import PAGE_LIMIT, SessionChanges, SessionQuery

router = APIRouter(prefix="/sessions", tags=["sessions"])

SessionId = Annotated[str, Path(description="The session's id.", examples=["math-17-attempt-0"])]

# What stands in a URL that an agent is given is checked: a Host header can say anything.
_AUTHORITY: Final = re.compile(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")


class SessionFields(Strict):
    """What a session's maker may say of it, and change later."""

    run_id: Label | None = None
    group_id: Label | None = None
    group_size: GroupSize | None = None
    """How many sessions the group is to have; its complete groups are known by it."""
    metadata: JsonObject = Field(default_factory=dict)
    capture: Capture | None = None
    purpose: Purpose | None = None
    attempt: Whole = 0
    sampling: PinnedSampling | None = None
    budgets: Budgets | None = None


class NewSession(SessionFields):
    session_id: Annotated[str, Field(pattern=SESSION_ID_PATTERN)] | None = None
    """One is made up unless it is given."""


class Ending(Strict):
    status: EndedStatus = "finished"
    rewards: list[NewReward] = Field(default_factory=list, max_length=MOST_AT_ONCE)
    """Told with the end: whoever sees the session ended sees them."""


class ChosenSessions(Strict):
    """A field that is left out does not filter."""

    run_id: RunId | None = None
    group_id: str | None = None
    status: SessionStatus | None = None
    purpose: Purpose | None = None
    """`train` finds also the sessions that say none, for so are their calls."""
    since: Timestamp | None = None
    until: Timestamp | None = None
    limit: Limit = PAGE_LIMIT
    cursor: Cursor | None = None


class SessionFilters(ChosenSessions):
    implicit: bool | None = None
    wait: Wait = 0

    def query(self) -> SessionQuery:
        return SessionQuery(**self.model_dump(exclude={"wait"}))


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedSession(Session):
    base_url: str
    """What an agent needs: its SDK's `base_url`."""
    key: str
    """Good for this session's calls alone. It is told here and never again."""


@dataclass(frozen=True, slots=True)
class SessionPage:
    items: tuple[Session, ...]
    next: str | None
    complete: bool


@router.post("", status_code=201, response_model=CreatedSession, dependencies=[needs("session:write")])
async def create_session(body: NewSession, request: Request, parts: Parts) -> Response:
    """Make a session; the answer has the `base_url` and the key for its agent."""
    wanted = Session(created_at=datetime.now(UTC), **(body.model_dump() | {"session_id": body.session_id or new_id()}))
    session, key = await parts.sessions.create(wanted)
    base_url = f"{_origin(request, parts.settings.public_url)}/sessions/{session.session_id}/v1"
    values: dict[str, Any] = {field.name: getattr(session, field.name) for field in fields(Session)}
    return json_answer(CreatedSession(**values, base_url=base_url, key=key), 201)


@router.get("", response_model=SessionPage, dependencies=[needs("trace:read")])
async def list_sessions(filters: Annotated[SessionFilters, Query()], request: Request, parts: Parts) -> Response:
    """Sessions by the time of their making."""
    query = filters.query()
    page, complete = await complete_page(lambda: parts.sessions.list(query), filters.wait, request, parts)
    told = SessionPage(page.items, page.next, complete)
    return Response(await asyncio.to_thread(encode, told), media_type=JSON)


@router.get("/{session_id}", response_model=Session, dependencies=[needs("trace:read")])
async def read_session(session_id: SessionId, parts: Parts) -> Response:
    return json_answer(await parts.sessions.get(check_session_id(session_id)))


@router.patch("/{session_id}", response_model=Session, dependencies=[needs("session:write")])
async def change_session(session_id: SessionId, body: SessionFields, parts: Parts) -> Response:
    """Change what the body names; `metadata` is replaced whole."""
    check_session_id(session_id)
    changes: SessionChanges = body.model_dump(exclude_unset=True)  # type: ignore[assignment]
    if not changes:
        return json_answer(await parts.sessions.get(session_id))
    return json_answer(await parts.sessions.change(session_id, **changes))


@router.post("/{session_id}/finish", response_model=Session, dependencies=[needs("session:write")])
async def finish_session(session_id: SessionId, caller: AskedBy, parts: Parts, body: Ending | None = None) -> Response:
    """End a session, with its rewards where they are known: it takes no more calls. Later rewards are welcome too.

    Rewards need the scope `reward:write` as well.
    """
    ending = body or Ending()
    if ending.rewards:
        caller.check("reward:write")
    told = told_now(ending.rewards)
    session = await parts.sessions.finish(check_session_id(session_id), ending.status, told)
    parts.sight.session_ended(ending.status)
    return json_answer(session)


@router.delete("/{session_id}", status_code=204, response_class=Response, dependencies=[needs("session:write")])
async def delete_session(session_id: SessionId, parts: Parts) -> None:
    """Delete a session with all its traces. Its id is not used again, and what is still written for it is dropped."""
    if not await parts.sessions.delete(check_session_id(session_id)):
        await parts.sessions.get(session_id)  # Raises: there is none, or there was one.


def _origin(request: Request, public_url: str | None) -> str:
    """Where agents reach the gateway: as configured, else as this very request did."""
    if public_url is not None:
        return public_url
    authority = request.headers.get("host", "")
    if not _AUTHORITY.fullmatch(authority):
        host, port = request.scope.get("server") or ("127.0.0.1", None)
        authority = f"[{host}]" if ":" in host else host
        authority += f":{port}" if port is not None else ""
    return f"{request.url.scheme}://{authority}"
