from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from adapters.schema import SessionStatus
from storage.errors import ClaimAcknowledged, ClaimError, ClaimExpired, ClaimNotFound
from storage.ids import new_id
from storage.offers import Offers
from storage.opening import open_database
from storage.records import Claim, ClaimRequest, EndedQuery, Unit
from storage.store import Store
from tests.storage.examples import NOON, session


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self, db: Connection) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(place: str, tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    store = Store.start(open_database(place), gateway_id="gateway-1", spool=tmp_path / "spool", clock=clock)
    yield store
    await store.close()


async def ended(store: Store, *names: str, status: SessionStatus = "finished", **fields: Any) -> None:
    for name in names:
        await store.create_session(session(name, **fields))
        await store.finish_session(name, status)


async def claim(store: Store, **wanted: Any) -> Claim:
    made = await store.claims.take(ClaimRequest(**wanted))
    assert made is not None
    return made


async def test_a_claim_gives_what_ended_first_and_nothing_that_another_has(store: Store) -> None:
    await ended(store, "a", "b", "c")
    await store.create_session(session("open"))
    first, second = await claim(store, limit=2), await claim(store, limit=2)
    assert (first.session_ids, second.session_ids) == (("a", "b"), ("c",))
    assert (first.status, first.unit, first.group_ids) == ("held", "session", ())
    assert await store.claims.get(first.claim_id) == first
    assert await store.claims.take(ClaimRequest()) is None


async def test_consumers_of_other_names_each_get_everything(store: Store) -> None:
    await ended(store, "a", "b")
    for consumer in ("default", "judge", "archive"):
        assert (await claim(store, consumer=consumer, limit=9)).session_ids == ("a", "b")


async def test_what_was_acknowledged_is_never_offered_again(store: Store, clock: Clock) -> None:
    await ended(store, "a")
    done = await store.claims.acknowledge((await claim(store)).claim_id)
    assert (done.status, done.session_ids) == ("acknowledged", ("a",))
    clock.advance(1000)
    assert await store.claims.take(ClaimRequest()) is None
    assert await store.claims.acknowledge(done.claim_id) == done
    await store.finish_session("a")
    assert await store.claims.take(ClaimRequest()) is None
    for change in (store.claims.release(done.claim_id), store.claims.extend(done.claim_id, 60)):
        with pytest.raises(ClaimAcknowledged):
            await change


async def test_a_late_ack_is_refused_though_nobody_else_has_come(store: Store, clock: Clock) -> None:
    await ended(store, "a", "b")
    late = await claim(store, limit=2, lease_s=60)
    clock.advance(60)
    with pytest.raises(ClaimExpired, match=r"ran out at 2026-11-21T12:01:00Z, .*make a new claim"):
        await store.claims.acknowledge(late.claim_id)
    assert (await store.claims.get(late.claim_id)).status == "expired"
    again = await claim(store)
    assert again.session_ids == ("a",)
    for change in (store.claims.acknowledge(late.claim_id), store.claims.extend(late.claim_id, 60)):
        with pytest.raises(ClaimExpired):
            await change
    assert (await store.claims.get(late.claim_id)).session_ids == ("b",)
    await store.claims.release(late.claim_id)
    assert (await store.claims.acknowledge(again.claim_id)).session_ids == ("a",)
    assert (await claim(store, limit=2)).session_ids == ("b",)


async def test_a_lease_that_is_extended_goes_on(store: Store, clock: Clock) -> None:
    await ended(store, "a")
    made = await claim(store, lease_s=60)
    clock.advance(59)
    extended = await store.claims.extend(made.claim_id, 60)
    assert extended.expires_at - made.expires_at == timedelta(seconds=59)
    clock.advance(59)
    assert await store.claims.take(ClaimRequest()) is None
    assert (await store.claims.acknowledge(made.claim_id)).session_ids == ("a",)


async def test_what_is_released_is_offered_at_once(store: Store) -> None:
    await ended(store, "a")
    made = await claim(store)
    released = await store.claims.release(made.claim_id)
    assert (released.status, released.session_ids) == ("released", ())
    assert await store.claims.release(made.claim_id) == released
    with pytest.raises(ClaimExpired, match="was released"):
        await store.claims.acknowledge(made.claim_id)
    assert (await claim(store)).session_ids == ("a",)


async def test_a_claim_that_never_was_is_not_found(store: Store) -> None:
    for call in (
        store.claims.get("never"),
        store.claims.acknowledge("never"),
        store.claims.release("never"),
        store.claims.extend("never", 1),
    ):
        with pytest.raises(ClaimNotFound, match="never"):
            await call


async def test_a_deleted_session_leaves_its_claim(store: Store) -> None:
    await ended(store, "a", "b")
    made = await claim(store, limit=2)
    await store.delete_session("a")
    assert (await store.claims.acknowledge(made.claim_id)).session_ids == ("b",)


WANTED: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"run_id": "r"}, ("a",)),
    ({"run_id": ""}, ("train", "none")),
    ({"group_id": "g"}, ("a",)),
    ({}, ("a", "train", "none")),
    ({"purpose": "eval"}, ("eval",)),
    ({"purpose": None}, ("a", "eval", "train", "none")),
    ({"statuses": ("failed", "aborted")}, ("bad", "stopped")),
]


async def test_a_claim_is_of_what_was_asked_for_and_of_no_evaluation_unless_it_was(store: Store) -> None:
    await ended(store, "a", run_id="r", group_id="g")
    await ended(store, "eval", purpose="eval")
    await ended(store, "train", purpose="train")
    await ended(store, "bad", status="failed")
    await ended(store, "stopped", status="aborted")
    await ended(store, "none")
    for number, (wanted, expected) in enumerate(WANTED):
        assert (await claim(store, consumer=str(number), limit=9, **wanted)).session_ids == expected, wanted


async def test_many_who_claim_at_once_never_get_the_same(store: Store) -> None:
    names = [f"s{number:02}" for number in range(40)]
    await asyncio.gather(*(ended(store, name) for name in names))

    async def work() -> list[str]:
        done: list[str] = []
        while (made := await store.claims.take(ClaimRequest(limit=3))) is not None:
            done += (await store.claims.acknowledge(made.claim_id)).session_ids
        return done

    shares = await asyncio.gather(*(work() for _ in range(6)))
    assert sorted(name for share in shares for name in share) == names
    assert (await store.ended_sessions(EndedQuery(undelivered_to="default"))).items == ()


async def test_groups_are_claimed_when_they_are_complete_and_whole(store: Store) -> None:
    of = {"run_id": "r", "group_id": "g", "group_size": 3}
    await ended(store, "a", **of)
    await ended(store, "x", run_id="r", group_id="small", group_size=1)
    await ended(store, "other run", run_id="q", group_id="small", group_size=2)
    await ended(store, "b", **of, status="failed")
    assert (await claim(store, unit="group", limit=9)).group_ids == ("small",)
    assert await store.claims.take(ClaimRequest(unit="group")) is None
    await ended(store, "c", **of)
    made = await claim(store, unit="group", limit=9)
    assert (made.group_ids, made.session_ids) == (("g",), ("a", "c"))
    assert await store.claims.take(ClaimRequest(unit="group")) is None
    both = await claim(store, consumer="judge", unit="group", limit=9, statuses=("finished", "failed", "aborted"))
    assert (both.group_ids, both.session_ids) == (("g", "small"), ("a", "x", "b", "c"))


async def test_a_group_of_unknown_size_is_claimed_by_the_size_that_is_asked_for(store: Store) -> None:
    await ended(store, "a", "b", group_id="g")
    assert await store.claims.take(ClaimRequest(unit="group")) is None
    assert await store.claims.take(ClaimRequest(unit="group", group_size=3)) is None
    assert (await claim(store, unit="group", group_size=2)).session_ids == ("a", "b")


async def test_a_group_that_grows_after_it_was_claimed_is_not_offered_again(store: Store) -> None:
    await ended(store, "a", "b", group_id="g", group_size=2)
    made = await claim(store, unit="group")
    await ended(store, "late", group_id="g")
    assert await store.claims.take(ClaimRequest(unit="group")) is None
    await store.claims.acknowledge(made.claim_id)
    assert await store.claims.take(ClaimRequest(unit="group")) is None
    assert (await claim(store)).session_ids == ("late",)


async def test_a_group_whose_lease_ran_out_is_offered_with_all_that_it_has_by_then(store: Store, clock: Clock) -> None:
    await ended(store, "a", "b", group_id="g", group_size=2)
    made = await claim(store, unit="group")
    await ended(store, "late", group_id="g")
    clock.advance(600)
    assert (await claim(store, unit="group")).session_ids == ("a", "b", "late")
    with pytest.raises(ClaimExpired):
        await store.claims.acknowledge(made.claim_id)


async def test_a_group_of_which_nothing_is_wanted_is_not_offered(store: Store) -> None:
    await ended(store, "a", "b", status="failed", group_id="g", group_size=2)
    assert await store.claims.take(ClaimRequest(unit="group")) is None


async def test_what_is_labelled_or_ended_anew_after_all_else_was_delivered_is_found(store: Store) -> None:
    of = {"run_id": "r", "group_id": "g", "group_size": 1}
    await ended(store, "a", status="failed", **of)
    await ended(store, "b", purpose="eval", **of)
    await ended(store, "c", run_id="other", group_id="g")
    await ended(store, "d", **(of | {"group_id": "h"}))
    wanted = {"run_id": "r", "limit": 9}
    await store.claims.acknowledge((await claim(store, **wanted)).claim_id)
    assert await store.claims.take(ClaimRequest(**wanted)) is None
    await store.finish_session("a", "finished")
    assert (await claim(store, **wanted)).session_ids == ("a",)
    await store.change_session("b", purpose=None)
    assert (await claim(store, **wanted)).session_ids == ("b",)
    await store.change_session("c", run_id="r")
    assert (await claim(store, **wanted)).session_ids == ("c",)


async def test_a_group_is_offered_anew_when_all_that_was_delivered_of_it_is_deleted(store: Store) -> None:
    await ended(store, "a", group_id="g", group_size=1)
    await store.claims.acknowledge((await claim(store, unit="group")).claim_id)
    await ended(store, "late", group_id="g", group_size=1)
    assert await store.claims.take(ClaimRequest(unit="group")) is None
    await store.delete_session("a")
    assert (await claim(store, unit="group")).session_ids == ("late",)


async def test_a_claim_has_a_bound_but_for_a_group_that_is_larger(store: Store, clock: Clock) -> None:
    for group in ("g", "h"):
        await ended(store, *(f"{group}{number}" for number in range(4)), group_id=group, group_size=4)
    with store.database.read() as db:
        small, exact = Offers(most_sessions=3), Offers(most_sessions=8)
        assert small.find(db, ClaimRequest(unit="group", limit=2), clock) == [("g0", "g1", "g2", "g3")]
        assert len(exact.find(db, ClaimRequest(unit="group", limit=2), clock)) == 2
        assert small.find(db, ClaimRequest(limit=9), clock) == [("g0",), ("g1",), ("g2",)]


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"lease_s": 0.0}, {"lease_s": float("nan")}], ids=str)
def test_a_claim_of_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is none"):
        ClaimRequest(**wrong)


UNITS: dict[str, Unit] = {"judge": "session", "policy": "group"}
STEPS = st.one_of(
    st.tuples(st.just("end"), st.integers(1, 4)),
    st.tuples(st.just("claim"), st.sampled_from(sorted(UNITS)), st.integers(1, 3), st.integers(5, 40)),
    st.tuples(st.sampled_from(["acknowledge", "release", "extend"]), st.integers(0, 9)),
    st.tuples(st.sampled_from(["fail", "mend"]), st.integers(0, 9)),
    st.tuples(st.just("advance"), st.integers(1, 30)),
)


class Ledger:
    """What a test saw of one run: who holds what until when, and how often each session was acknowledged."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock, self.run_id = store, clock, new_id()
        self.ended: list[str] = []
        self.made: list[Claim] = []
        self.held: dict[tuple[str, str], Claim] = {}
        self.delivered: Counter[tuple[str, str]] = Counter()

    async def end(self, number: int) -> None:
        for _ in range(number):
            group_id = str(len(self.ended) // 2)
            self.ended.append(new_id())
            await ended(self.store, self.ended[-1], run_id=self.run_id, group_id=group_id, group_size=2)

    async def fail(self, which: int) -> None:
        await self.store.finish_session(self.ended[which % len(self.ended)], "failed")

    async def mend(self, which: int) -> None:
        await self.store.finish_session(self.ended[which % len(self.ended)], "finished")

    async def claim(self, consumer: str, limit: int, lease_s: float) -> Claim | None:
        made = await self.store.claims.take(
            ClaimRequest(consumer, self.run_id, unit=UNITS[consumer], limit=limit, lease_s=lease_s)
        )
        if made is not None:
            self.made.append(made)
            for key in ((consumer, session_id) for session_id in made.session_ids):
                assert key not in self.delivered
                assert key not in self.held or self.held[key].expires_at <= self.clock.now
                self.held[key] = made
        return made

    async def acknowledge(self, which: int) -> None:
        made = self.made[which % len(self.made)]
        before = (await self.store.claims.get(made.claim_id)).status
        try:
            done = await self.store.claims.acknowledge(made.claim_id)
        except ClaimExpired:
            assert before in ("released", "expired")
            return
        assert done.session_ids == made.session_ids
        if before == "held":
            self.delivered.update((done.consumer, session_id) for session_id in done.session_ids)

    async def release(self, which: int) -> None:
        made = self.made[which % len(self.made)]
        try:
            await self.store.claims.release(made.claim_id)
        except ClaimAcknowledged:
            return
        for key in ((made.consumer, session_id) for session_id in made.session_ids):
            if key in self.held and self.held[key].claim_id == made.claim_id:
                del self.held[key]

    async def extend(self, which: int) -> None:
        made = self.made[which % len(self.made)]
        try:
            extended = await self.store.claims.extend(made.claim_id, 20)
        except ClaimError:
            return
        self.made[self.made.index(made)] = extended
        self.held |= {(made.consumer, session_id): extended for session_id in made.session_ids}

    async def drain(self) -> None:
        for consumer in UNITS:
            while await self.claim(consumer, 3, 10) is not None:
                await self.acknowledge(-1)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=30))
async def test_every_session_is_acknowledged_once_by_each_consumer_whatever_happens(
    store: Store, clock: Clock, steps: list[tuple[Any, ...]]
) -> None:
    ledger = Ledger(store, clock)
    for step, *arguments in steps:
        if step == "advance":
            clock.advance(*arguments)
        elif step in ("end", "claim") or (ledger.ended if step in ("fail", "mend") else ledger.made):
            await getattr(ledger, step)(*arguments)
    await ledger.end(2 - len(ledger.ended) % 2)
    for which in range(len(ledger.ended)):
        await ledger.mend(which)
    clock.advance(100)
    await ledger.drain()
    assert set(ledger.delivered.values()) == {1}
    assert {session_id for consumer, session_id in ledger.delivered if consumer == "judge"} == set(ledger.ended)
    # A session that failed was not given with its group, and is not given after it.
    given_groups = {ledger.ended.index(name) // 2 for consumer, name in ledger.delivered if consumer == "policy"}
    assert given_groups == set(range(len(ledger.ended) // 2))
    if not any(step == "fail" for step, *_ in steps):
        assert len(ledger.delivered) == 2 * len(ledger.ended)
