"""Which rewards count now, and what they come to: a component told again revises the one before it."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.schema import Reward


def current(rewards: Sequence[Reward]) -> tuple[Reward, ...]:
    """The last of each `(trace_id, name)`, in the order in which each was first told.

    `rewards` are in the order of their writing, which is what counts: clocks of several judges differ.
    """
    latest: dict[tuple[str | None, str], Reward] = {}
    for reward in rewards:
        latest[reward.trace_id, reward.name] = reward  # A key that is there keeps its place.
    return tuple(latest.values())


def total(rewards: Sequence[Reward]) -> float | None:
    """What the rollout was worth: the sum of weight · value over its own current components, not those of its traces.

    None where none was told. A component of weight 0 is only watched: alone, it makes no reward of 0.
    """
    counted = [reward for reward in current(rewards) if reward.trace_id is None and reward.weight != 0.0]
    return sum(reward.weight * reward.value for reward in counted) if counted else None
