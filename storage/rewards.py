"""Rewards as they are told: late, revised, for a session or one of its traces, and twice by who is not sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection, select

from adapters.schema import Reward, Session
from storage.errors import RewardExists, TooManyRewards, TraceMissing
from storage.tables import traces

MOST_REWARDS: Final = 10_000
"""Of one session. They stand in its row, which is read and written whole."""


def added(db: Connection, session: Session, told: Sequence[Reward]) -> Session:
    """The session with those of the rewards that are new to it, all or none.

    What was told before under the same id is no news, whenever it was. Raises RewardExists, TraceMissing,
    TooManyRewards.
    """
    known = {reward.reward_id: reward for reward in session.rewards}
    new: list[Reward] = []
    for reward in told:
        present = known.setdefault(reward.reward_id, reward)
        if present is reward:
            new.append(reward)
        elif replace(present, created_at=reward.created_at) != reward:
            raise RewardExists(session.session_id, reward.reward_id)
    if len(known) > MOST_REWARDS:
        raise TooManyRewards(session.session_id, MOST_REWARDS)
    _check_traces(db, session.session_id, new)
    return replace(session, rewards=(*session.rewards, *new))


def _check_traces(db: Connection, session_id: str, rewards: Sequence[Reward]) -> None:
    named = {reward.trace_id for reward in rewards if reward.trace_id is not None}
    if named:
        c = traces.c
        found = set(db.scalars(select(c.trace_id).where(c.session_id == session_id, c.trace_id.in_(named))))
        if missing := named - found:
            raise TraceMissing(session_id, min(missing))
