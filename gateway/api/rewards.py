"""What a session, or one of its traces, was worth: told by judges, late or again, and read back with what counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Response
from pydantic import Discriminator, Field, Tag

from adapters.schema import Reward, Session
from gateway.api.inputs import JsonObject, Label, Strict
from gateway.api.listing import json_answer
from gateway.api.parts import Parts
from gateway.api.problem import OtherTrace, TraceNotFound
from gateway.api.scoped import needs
from gateway.sessions import check_session_id
from storage.ids import new_id
from storage.samples.rewards import current, total

router = APIRouter(tags=["rewards"])

MOST_AT_ONCE: Final = 1_000

_LARGEST: Final = 1e30
Number = Annotated[float, Field(allow_inf_nan=False, ge=-_LARGEST, le=_LARGEST)]
"""So that the sum of all that a session can have, each value by its weight, is a number too."""


class NewReward(Strict):
    """One named component. A later one of the same name, and of the same trace, revises it."""

    value: Number
    name: Label = "reward"
    weight: Number = 1.0
    """Its part in the session's reward: 0 for what is only watched."""
    trace_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Of one call; left out, of the session as a whole."""
    reward_id: Label | None = None
    """Your own key. Telling the same reward under it again changes nothing; one is made up unless it is given."""
    metadata: JsonObject = Field(default_factory=dict)


NewRewards = Annotated[list[NewReward], Field(min_length=1, max_length=MOST_AT_ONCE)]
# By what was sent, or an error would be told twice, once for each of the two that it might have been. Their names
# stand in the error before the field that is wrong.
OneOrMore = Annotated[
    Annotated[NewReward, Tag("reward")] | Annotated[NewRewards, Tag("rewards")],
    Discriminator(lambda told: "rewards" if isinstance(told, list) else "reward"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldReward(Reward):
    current: bool
    """Whether it counts now: no later one has revised it."""


@dataclass(frozen=True, slots=True)
class RewardList:
    """Every reward of a session in the order in which they were told."""

    items: tuple[ToldReward, ...]
    total: float | None
    """The session's reward: its own current components, each by its weight. Null where none was told."""
    next: str | None = None
    complete: bool = True


@router.post("/sessions/{session_id}/rewards", response_model=RewardList, dependencies=[needs("reward:write")])
async def add_rewards(session_id: Annotated[str, Path()], body: OneOrMore, parts: Parts) -> Response:
    """Tell one reward or a list of them, which is taken whole or not at all; of a session that is open or has ended.

    Who is not sure whether a reward arrived tells it again under the same `reward_id`.
    """
    told = told_now(_each(body))
    return json_answer(_listed(await parts.sessions.reward(check_session_id(session_id), told)))


@router.get("/sessions/{session_id}/rewards", response_model=RewardList, dependencies=[needs("trace:read")])
async def list_rewards(session_id: Annotated[str, Path()], parts: Parts) -> Response:
    """All that were told of the session and of its traces: which of them count, and what they come to."""
    return json_answer(_listed(await parts.sessions.get(check_session_id(session_id))))


@router.post("/traces/{trace_id}/rewards", response_model=RewardList, dependencies=[needs("reward:write")])
async def add_trace_rewards(trace_id: Annotated[str, Path(max_length=128)], body: OneOrMore, parts: Parts) -> Response:
    """Tell rewards of one call; the answer has all of its session."""
    told = _each(body)
    for other in {reward.trace_id for reward in told} - {None, trace_id}:
        raise OtherTrace(f"The path names trace {trace_id!r}, but a reward names {other!r}. Leave its `trace_id` out.")
    session_id = await parts.store.session_id_of(trace_id)
    if session_id is None:
        raise TraceNotFound(f"There is no trace {trace_id!r}.")
    return json_answer(_listed(await parts.sessions.reward(session_id, told_now(told, trace_id))))


def told_now(told: Sequence[NewReward], trace_id: str | None = None) -> list[Reward]:
    """As they are kept. `trace_id` is that of rewards which name none."""
    now = datetime.now(UTC)
    return [
        Reward(
            reward_id=reward.reward_id or new_id(),
            name=reward.name,
            value=reward.value,
            created_at=now,
            weight=reward.weight,
            trace_id=reward.trace_id or trace_id,
            metadata=reward.metadata,
        )
        for reward in told
    ]


def _each(body: NewReward | list[NewReward]) -> list[NewReward]:
    return body if isinstance(body, list) else [body]


def _listed(session: Session) -> RewardList:
    counting = {reward.reward_id for reward in current(session.rewards)}
    items = tuple(ToldReward(**_values(each), current=each.reward_id in counting) for each in session.rewards)
    return RewardList(items, total(session.rewards))


def _values(reward: Reward) -> dict[str, Any]:
    return {field.name: getattr(reward, field.name) for field in fields(Reward)}
