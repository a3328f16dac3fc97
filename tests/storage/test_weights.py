"""Weights, their events, and pauses, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from storage.errors import BadCursor
from storage.store import Store
from storage.weights import EventQuery, GateHeard, StoredPause, event
from tests.postgres import Postgres
from tests.storage.examples import NOON

PAUSE = StoredPause("p1", "trainer", None, "hold", False, None, 100, None, NOON, NOON)


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    server: Postgres | None = request.getfixturevalue("postgres") if request.param == "postgres" else None
    url = f"sqlite:///{tmp_path / 'a.db'}" if server is None else server.database()
    opened = Store.open(url, gateway_id="gateway-1", spool=tmp_path / "spool")
    try:
        yield opened
    finally:
        await opened.close()


async def test_a_version_that_is_news_is_an_event_and_the_current_one(store: Store) -> None:
    later = NOON + timedelta(seconds=1)
    await store.weights.change([event("a", "v1", "administrator", NOON), event("b", "v1", "administrator", NOON)])
    await store.weights.change([event("a", "v1", "engine", later), event("a", "v2", "engine", later, "gateway-1")])
    told = (await store.weights.events(EventQuery())).items
    assert [(one.backend, one.previous, one.weight_version, one.source) for one in told] == [
        ("a", None, "v1", "administrator"),
        ("b", None, "v1", "administrator"),
        ("a", "v1", "v2", "engine"),
    ]
    now = (await store.weights.known()).weights
    assert [(one.backend, one.weight_version, one.changed_at) for one in now] == [("a", "v2", later), ("b", "v1", NOON)]


async def test_what_is_heard_of_too_late_is_an_event_and_not_the_current_version(store: Store) -> None:
    await store.weights.change([event("a", "v2", "administrator", NOON)])
    await store.weights.change([event("a", "v1", "engine", NOON - timedelta(seconds=5))])
    assert [one.weight_version for one in (await store.weights.events(EventQuery())).items] == ["v1", "v2"]
    assert [one.weight_version for one in (await store.weights.known()).weights] == ["v2"]


async def test_events_come_by_time_a_page_at_a_time_and_by_backend(store: Store) -> None:
    changes = [event("ab"[at % 2], f"v{at}", "engine", NOON + timedelta(seconds=at)) for at in range(10)]
    await store.weights.change(changes)
    seen, cursor = [], None
    while True:
        page = await store.weights.events(EventQuery(limit=3, cursor=cursor))
        seen += [one.weight_version for one in page.items]
        if (cursor := page.next) is None:
            break
    assert seen == [f"v{at}" for at in range(10)]
    since, until = NOON + timedelta(seconds=2), NOON + timedelta(seconds=7)
    asked = EventQuery(backend="a", since=since, until=until)
    assert [one.weight_version for one in (await store.weights.events(asked)).items] == ["v2", "v4", "v6"]
    with pytest.raises(BadCursor):
        await store.weights.events(EventQuery(cursor="nonsense"))


async def test_a_pause_that_is_told_again_has_its_time_anew_and_stays_one(store: Store) -> None:
    first = await store.weights.pause(PAUSE, 10.0)
    assert 9.0 < first.remaining <= 10.0
    again = await store.weights.pause(PAUSE, 20.0)
    assert (again.created_at, again.pause_id) == (first.created_at, "p1")
    assert again.expires_at > first.expires_at
    assert [one.pause_id for one in (await store.weights.known()).pauses] == ["p1"]


async def test_a_pause_is_released_once_and_expires_for_one_alone(store: Store) -> None:
    await store.weights.pause(PAUSE, 60.0)
    assert await store.weights.release(["p1", "p2"]) == ("p1",)
    assert await store.weights.release(["p1"]) == ()
    await store.weights.pause(PAUSE, 0.05)
    await asyncio.sleep(0.1)
    assert (await store.weights.known()).pauses == ()
    gone = await asyncio.gather(store.weights.expire(), store.weights.expire())
    assert sorted(len(each) for each in gone) == [0, 1]


async def test_backends_are_let_go_one_by_one(store: Store) -> None:
    pause = await store.weights.pause(PAUSE, 60.0)
    assert (pause.covers("a"), pause.covers("b")) == (True, True)
    await store.weights.let_go("p1", ["a"])
    await store.weights.let_go("p1", ["a", "c"])
    (pause,) = (await store.weights.known()).pauses
    assert pause.released == ("a", "c")
    assert (pause.covers("a"), pause.covers("b")) == (False, True)


async def test_a_pause_may_be_of_some_backends(store: Store) -> None:
    one = StoredPause("p1", None, ("a", "b"), "reject", True, 5.0, 1, "keep", NOON, NOON)
    await store.weights.pause(one, 60.0)
    (told,) = (await store.weights.known()).pauses
    assert (told.backends, told.mode, told.move, told.max_hold, told.max_held, told.engine) == (
        ("a", "b"),
        "reject",
        True,
        5.0,
        1,
        "keep",
    )
    assert (told.covers("b"), told.covers("c")) == (True, False)


async def test_gates_are_those_of_the_others_and_one_that_never_told_heeds_nothing(
    tmp_path: Path, postgres: Postgres
) -> None:
    url = postgres.database()
    here = Store.open(url, gateway_id="here", spool=tmp_path / "here")
    there = Store.open(url, gateway_id="there", spool=tmp_path / "there")
    try:
        async with asyncio.timeout(10):
            while not (heard := await here.weights.gates()):
                await asyncio.sleep(0.05)
        assert heard == (GateHeard("there", True),)
        told = GateHeard("there", True, ("p1",), {"a": 2}, {"p1": 3})
        await there.weights.tell_gate(told)
        await there.weights.tell_gate(told)
        assert await here.weights.gates() == (told,)
    finally:
        await here.close()
        await there.close()
