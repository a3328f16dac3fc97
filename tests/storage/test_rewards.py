from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from adapters.schema import Reward
from storage.errors import RewardExists, SessionDeleted, SessionNotFound, TooManyRewards, TraceMissing
from storage.rewards import MOST_REWARDS
from storage.store import Store
from tests.storage.examples import NOON, call, session


def reward(reward_id: str, value: float = 1.0, **fields: Any) -> Reward:
    return Reward(**({"reward_id": reward_id, "name": "reward", "value": value, "created_at": NOON} | fields))


async def test_rewards_are_kept_in_the_order_of_their_telling_revised_ones_too(store: Store) -> None:
    await store.create_session(session("s"))
    await store.add_rewards("s", [reward("1", 0.5), reward("2", 1.0, name="format", weight=0.1)])
    await store.finish_session("s")
    told = await store.add_rewards("s", [reward("3", 0.7)])
    assert [(each.reward_id, each.value) for each in told.rewards] == [("1", 0.5), ("2", 1.0), ("3", 0.7)]
    assert await store.session("s") == told


async def test_a_reward_told_again_is_no_news_whenever_it_was(store: Store) -> None:
    await store.create_session(session("s"))
    first = await store.add_rewards("s", [reward("1", 0.5, metadata={"judge": "a"})])
    later = reward("1", 0.5, metadata={"judge": "a"}, created_at=datetime(2030, 1, 1, tzinfo=UTC))
    assert await store.add_rewards("s", [later, later]) == first


@pytest.mark.parametrize(
    "other", [{"value": 0.6}, {"name": "other"}, {"weight": 2.0}, {"metadata": {"judge": "b"}}], ids=str
)
async def test_the_same_id_for_something_else_is_refused_and_nothing_of_the_list_kept(
    store: Store, other: dict[str, Any]
) -> None:
    await store.create_session(session("s"))
    first = await store.add_rewards("s", [reward("1", 0.5)])
    with pytest.raises(RewardExists, match=r"'1'.*under a new id"):
        await store.add_rewards("s", [reward("2"), reward("1", **({"value": 0.5} | other))])
    assert await store.session("s") == first


async def test_two_rewards_of_one_list_that_share_an_id_are_refused(store: Store) -> None:
    await store.create_session(session("s"))
    with pytest.raises(RewardExists):
        await store.add_rewards("s", [reward("1", 0.5), reward("1", 0.6)])
    assert await store.session("s") == session("s")


async def test_a_reward_of_a_call_names_a_call_of_this_session(store: Store) -> None:
    mine, other = call("s"), call("t")
    await store.finish(mine, timeout=5)
    await store.finish(other, timeout=5)
    told = await store.add_rewards("s", [reward("1", trace_id=mine.trace_id)])
    assert told.rewards[0].trace_id == mine.trace_id
    with pytest.raises(TraceMissing, match=other.trace_id):
        await store.add_rewards("s", [reward("2", trace_id=other.trace_id)])


async def test_a_call_that_has_just_begun_can_have_a_reward(store: Store) -> None:
    begun = call("s", status="running")
    store.begin(begun)
    told = await store.add_rewards("s", [reward("1", trace_id=begun.trace_id)])
    assert len(told.rewards) == 1


async def test_a_session_ends_with_its_rewards_or_not_at_all(store: Store) -> None:
    await store.create_session(session("s"))
    with pytest.raises(TraceMissing):
        await store.finish_session("s", rewards=[reward("1", trace_id="never")])
    assert await store.session("s") == session("s")
    ended = await store.finish_session("s", "failed", [reward("1", 0.0)])
    assert (ended.status, ended.rewards) == ("failed", (reward("1", 0.0),))
    assert await store.finish_session("s", "failed", [reward("1", 0.0)]) == ended


async def test_only_a_session_that_is_there_takes_rewards(store: Store) -> None:
    with pytest.raises(SessionNotFound):
        await store.add_rewards("s", [reward("1")])
    await store.create_session(session("s"))
    await store.delete_session("s")
    with pytest.raises(SessionDeleted):
        await store.add_rewards("s", [reward("1")])


async def test_a_session_keeps_so_many_rewards_and_no_more(store: Store) -> None:
    every = tuple(reward(str(number)) for number in range(MOST_REWARDS))
    await store.create_session(session("s", rewards=every))
    with pytest.raises(TooManyRewards, match="10000"):
        await store.add_rewards("s", [reward("one more")])
    assert len((await store.add_rewards("s", [reward("7")])).rewards) == MOST_REWARDS


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_a_reward_is_a_finite_number(wrong: float) -> None:
    with pytest.raises(ValueError, match="no finite number"):
        reward("1", wrong)
    with pytest.raises(ValueError, match="no finite number"):
        replace(reward("1"), weight=wrong)
