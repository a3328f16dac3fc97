"""Whose session a call is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.schema import RecordedRequest, Session, Trace
from gateway.keys import Callers, KeyRing
from gateway.patience import Patience
from gateway.refusals import (
    Forbidden,
    InvalidRequest,
    NotRecordable,
    Refusal,
    SessionClosed,
    SessionGone,
    Unauthorized,
)
from gateway.sessions import Sessions
from storage.errors import SessionDeleted, SessionExists, SessionNotFound, Unavailable
from storage.records import SessionQuery
from storage.store import Store

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
TRACE_ID = "01930000-0000-7000-8000-000000000001"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Counted:
    """A store that counts how often it is asked for a session, and can be away."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads = 0
        self.away = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def find_session(self, session_id: str) -> Session | None:
        self.reads += 1
        self._be_here()
        return await self._store.find_session(session_id)

    async def session_by_key(self, key_hash: bytes) -> Session | None:
        self.reads += 1
        self._be_here()
        return await self._store.session_by_key(key_hash)

    def _be_here(self) -> None:
        if self.away:
            raise Unavailable("database is locked")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store.open(f"sqlite:///{tmp_path / 'rollouts.db'}", gateway_id="g1")
    yield store
    await store.close()


def begun(store: Store, session: Session) -> None:
    """The session's first call is queued, as the proxy does it."""
    store.begin(Trace(TRACE_ID, session.session_id, "chat", "running", NOW, RecordedRequest(None)), session)


async def test_a_call_that_names_no_session_gets_one_of_its_own(store: Store) -> None:
    resolved = await Sessions(store).resolve({}, None, TRACE_ID)
    assert resolved.new
    assert (resolved.session.session_id, resolved.session.implicit) == (TRACE_ID, True)


@pytest.mark.parametrize(
    "headers",
    [
        {"x-session-id": "other"},
        {"x-claude-code-session-id": "other"},
        {"session_id": "other"},
        {"conversation_id": "other"},
    ],
)
async def test_what_a_harness_sends_never_attributes(store: Store, headers: dict[str, str]) -> None:
    assert (await Sessions(store).resolve(headers, None, TRACE_ID)).session.session_id == TRACE_ID
    assert (await Sessions(store).resolve(headers, "s1", TRACE_ID)).session.session_id == "s1"


async def test_a_path_or_our_header_names_a_session_that_comes_into_being(store: Store) -> None:
    sessions = Sessions(store)
    by_path = await sessions.resolve({}, "s1", TRACE_ID)
    by_header = await sessions.resolve({"x-rollout-session-id": "s2"}, None, TRACE_ID)
    assert (by_path.new, by_path.session.session_id, by_path.session.implicit) == (True, "s1", False)
    assert (by_header.new, by_header.session.session_id) == (True, "s2")


async def test_a_path_and_a_header_that_disagree_are_refused(store: Store) -> None:
    with pytest.raises(Forbidden, match="The path names session `s1`"):
        await Sessions(store).resolve({"x-rollout-session-id": "s2"}, "s1", TRACE_ID)
    both = await Sessions(store).resolve({"x-rollout-session-id": "s1"}, "s1", TRACE_ID)
    assert both.session.session_id == "s1"


@pytest.mark.parametrize("session_id", ["a", "a" * 128, "9", "run-1:task.2_a@b"])
async def test_session_ids_have_a_rule(store: Store, session_id: str) -> None:
    assert (await Sessions(store).resolve({}, session_id, TRACE_ID)).session.session_id == session_id


@pytest.mark.parametrize("session_id", ["", "a" * 129, "-a", ".", "..", "a/b", "a b", "a\n", "ä", "a%2fb", "a\x00"])
async def test_a_session_id_outside_the_rule_is_refused(store: Store, session_id: str) -> None:
    with pytest.raises(InvalidRequest, match="begins with a letter or digit"):
        await Sessions(store).resolve({}, session_id, TRACE_ID)
    with pytest.raises(InvalidRequest, match="begins with a letter or digit") as refused:
        await Sessions(store).resolve({"x-rollout-session-id": session_id}, None, TRACE_ID)
    assert refused.value.error.param == "x-rollout-session-id"


async def test_a_new_session_is_new_until_the_database_has_it(store: Store) -> None:
    sessions = Sessions(store)
    first = await sessions.resolve({}, "s1", TRACE_ID)
    second = await sessions.resolve({}, "s1", TRACE_ID)
    assert (first.new, second.new) == (True, True)
    assert second.session == first.session
    begun(store, first.session)
    third = await sessions.resolve({}, "s1", TRACE_ID)
    assert not third.new
    assert third.session == first.session


async def test_a_session_is_read_once_in_five_seconds(store: Store) -> None:
    counted, clock = Counted(store), Clock()
    sessions = Sessions(counted, clock=clock)  # type: ignore[arg-type]
    await store.create_session(Session("s1", NOW))
    for _ in range(3):
        assert not (await sessions.resolve({}, "s1", TRACE_ID)).new
    assert counted.reads == 1
    await store.finish_session("s1")
    clock.now = 4.9
    await sessions.resolve({}, "s1", TRACE_ID)
    clock.now = 5.0
    with pytest.raises(SessionClosed):
        await sessions.resolve({}, "s1", TRACE_ID)


async def test_a_pin_is_seen_at_once_and_written(store: Store) -> None:
    sessions = Sessions(store)
    session = (await sessions.resolve({}, "s1", TRACE_ID)).session
    begun(store, session)
    assert sessions.pin(session, "gpu-1").backend == "gpu-1"
    assert (await sessions.resolve({}, "s1", TRACE_ID)).session.backend == "gpu-1"
    written = await Sessions(store).get("s1")
    assert written.backend == "gpu-1"


async def test_a_pin_is_seen_by_the_calls_that_come_before_the_row(store: Store) -> None:
    sessions = Sessions(store)
    session = (await sessions.resolve({}, "s1", TRACE_ID)).session
    sessions.pin(session, "gpu-1")
    assert (await sessions.resolve({}, "s1", TRACE_ID)).session.backend == "gpu-1"


@pytest.mark.parametrize("status", ["finished", "failed", "aborted"])
async def test_an_ended_session_takes_no_more_calls(store: Store, status: str) -> None:
    sessions = Sessions(store)
    _, key = await sessions.create(Session("s1", NOW))
    await sessions.finish("s1", status)  # type: ignore[arg-type]
    for headers, path in (({}, "s1"), ({"x-api-key": key}, None), ({"x-rollout-session-id": "s1"}, None)):
        with pytest.raises(SessionClosed, match=status) as refused:
            await sessions.resolve(headers, path, TRACE_ID)
        assert refused.value.headers == [("x-should-retry", "false")]  # Or SDKs send a 409 again, twice.


async def test_a_deleted_session_stays_deleted(store: Store) -> None:
    sessions = Sessions(store)
    _, key = await sessions.create(Session("s1", NOW))
    await sessions.resolve({"x-api-key": key}, None, TRACE_ID)
    assert await sessions.delete("s1")
    with pytest.raises(SessionGone, match="not used again"):
        await sessions.resolve({}, "s1", TRACE_ID)
    with pytest.raises(Unauthorized, match="may have been deleted"):
        await sessions.resolve({"x-api-key": key}, None, TRACE_ID)
    with pytest.raises(SessionDeleted):
        await sessions.create(Session("s1", NOW))


async def test_deleting_what_another_gateway_has_cached_is_seen_after_five_seconds(store: Store) -> None:
    clock = Clock()
    sessions = Sessions(store, clock=clock)
    _, key = await sessions.create(Session("s1", NOW))
    await sessions.resolve({"x-api-key": key}, None, TRACE_ID)
    await store.delete_session("s1")
    clock.now = 5.0
    with pytest.raises(SessionGone):
        await sessions.resolve({"x-api-key": key}, None, TRACE_ID)


async def test_a_sessions_own_key_is_good_for_its_session_alone(store: Store) -> None:
    sessions = Sessions(store, callers=Callers(KeyRing(["agents"])))
    _, key = await sessions.create(Session("s1", NOW))
    for headers in ({"authorization": f"Bearer {key}"}, {"x-api-key": key}):
        assert (await sessions.resolve(headers, None, TRACE_ID)).session.session_id == "s1"
        assert (await sessions.resolve(headers, "s1", TRACE_ID)).session.session_id == "s1"
        with pytest.raises(Forbidden, match="its own session alone"):
            await sessions.resolve(headers, "s2", TRACE_ID)
        with pytest.raises(Forbidden, match="its own session alone"):
            await sessions.resolve(headers | {"x-rollout-session-id": "s2"}, None, TRACE_ID)


async def test_an_agents_key_may_name_any_session(store: Store) -> None:
    sessions = Sessions(store, callers=Callers(KeyRing(["agents", "others"])))
    for key in ("agents", "others"):
        assert (await sessions.resolve({"x-api-key": key}, "s2", TRACE_ID)).session.session_id == "s2"


@pytest.mark.parametrize("headers", [{}, {"x-api-key": "wrong"}, {"authorization": "Basic YTpi"}])
async def test_with_keys_configured_a_wrong_one_is_refused(store: Store, headers: dict[str, str]) -> None:
    with pytest.raises(Unauthorized):
        await Sessions(store, callers=Callers(KeyRing(["agents"]))).resolve(headers, "s1", TRACE_ID)


async def test_who_has_no_key_is_not_told_what_sessions_there_are(store: Store) -> None:
    sessions = Sessions(store, callers=Callers(KeyRing(["agents"])))
    await sessions.create(Session("s1", NOW))
    await sessions.delete("s1")
    with pytest.raises(Unauthorized):
        await sessions.resolve({}, "s1", TRACE_ID)


async def test_without_keys_configured_every_key_is_taken_but_an_unknown_sessions(store: Store) -> None:
    sessions = Sessions(store)
    assert (await sessions.resolve({"authorization": "Bearer sk-any"}, "s1", TRACE_ID)).new
    with pytest.raises(Unauthorized, match="session key is unknown"):
        await sessions.resolve({"authorization": "Bearer rgs-made-up"}, "s1", TRACE_ID)


async def test_one_good_key_of_two_suffices(store: Store) -> None:
    sessions = Sessions(store, callers=Callers(KeyRing(["agents"])))
    _, key = await sessions.create(Session("s1", NOW))
    _, other = await sessions.create(Session("s2", NOW))
    own_and_junk = {"authorization": f"Bearer {key}", "x-api-key": "dummy"}
    assert (await sessions.resolve(own_and_junk, None, TRACE_ID)).session.session_id == "s1"
    with pytest.raises(Forbidden, match="different sessions"):
        await sessions.resolve({"authorization": f"Bearer {key}", "x-api-key": other}, None, TRACE_ID)


async def test_only_the_digest_of_a_key_is_kept(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'rollouts.db'}", gateway_id="g1")
    sessions = Sessions(store)
    _, key = await sessions.create(Session("s1", NOW))
    await sessions.resolve({"x-api-key": key}, None, TRACE_ID)
    await store.close()
    written = [file.read_bytes() for file in tmp_path.iterdir()]  # noqa: ASYNC240
    assert written
    assert not any(key.encode() in each for each in written)


async def test_a_database_that_is_away_does_not_end_a_session_that_runs(store: Store) -> None:
    counted, clock = Counted(store), Clock()
    sessions = Sessions(counted, clock=clock)  # type: ignore[arg-type]
    _, key = await sessions.create(Session("s1", NOW))
    await sessions.resolve({"x-api-key": key}, None, TRACE_ID)
    counted.away, clock.now = True, 600.0
    running = await sessions.resolve({"x-api-key": key}, None, TRACE_ID)
    assert (running.session.session_id, running.new, running.provisional) == ("s1", False, False)


async def test_a_session_that_cannot_be_looked_up_is_one_for_the_time_being(store: Store) -> None:
    counted, clock = Counted(store), Clock()
    sessions = Sessions(counted, clock=clock, patience=Patience(clock=clock))  # type: ignore[arg-type]
    await store.create_session(Session("s1", NOW, run_id="r"))
    counted.away = True
    first = await sessions.resolve({}, "s1", TRACE_ID)
    assert (first.new, first.provisional, first.session.run_id) == (True, True, None)
    sessions.began(sessions.pin(first.session, "gpu-1"))
    again = await sessions.resolve({}, "s1", TRACE_ID)
    assert (again.new, again.provisional, again.session.backend) == (True, True, "gpu-1")
    counted.away, clock.now = False, 10.0
    found = await sessions.resolve({}, "s1", TRACE_ID)
    assert (found.new, found.provisional, found.session.run_id) == (False, False, "r")


async def test_a_session_that_began_in_an_outage_is_an_ordinary_one_after_it(store: Store) -> None:
    counted, clock = Counted(store), Clock()
    sessions = Sessions(counted, clock=clock, patience=Patience(clock=clock))  # type: ignore[arg-type]
    counted.away = True
    first = await sessions.resolve({}, "s1", TRACE_ID)
    begun(store, first.session)
    sessions.began(first.session)
    counted.away, clock.now = False, 10.0
    later = await sessions.resolve({}, "s1", TRACE_ID)
    assert (later.session, later.new, later.provisional) == (first.session, False, False)


async def test_a_key_that_cannot_be_looked_up_is_to_be_sent_again(store: Store) -> None:
    counted = Counted(store)
    counted.away = True
    with pytest.raises(NotRecordable) as refused:
        await Sessions(counted).resolve({"x-api-key": "rgs-unseen"}, None, TRACE_ID)  # type: ignore[arg-type]
    assert (refused.value.status, refused.value.headers) == (503, [("x-should-retry", "true")])


async def test_what_another_gateway_changed_is_seen_within_a_second(store: Store) -> None:
    clock = Clock()
    here = Sessions(store, shared=True, clock=clock)
    await here.create(Session("s1", NOW))
    await Sessions(store, shared=True).change("s1", attempt=1)
    clock.now = 1.0
    assert (await here.resolve({}, "s1", TRACE_ID)).session.attempt == 1


class Slow(Counted):
    """A store whose looks come back once they are let."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.looked, self.told = asyncio.Event(), asyncio.Event()
        self.told.set()

    async def find_session(self, session_id: str) -> Session | None:
        found = await super().find_session(session_id)
        self.looked.set()
        await self.told.wait()
        return found

    def hold(self) -> None:
        """From here on, until `told` is set."""
        self.looked.clear()
        self.told.clear()


async def test_a_slow_database_holds_up_no_session_that_is_known(store: Store) -> None:
    slow, clock = Slow(store), Clock()
    sessions = Sessions(slow, shared=True, clock=clock, patience=Patience(60))  # type: ignore[arg-type]
    await store.create_session(Session("s1", NOW))
    await sessions.resolve({}, "s1", TRACE_ID)
    await store.finish_session("s1")
    slow.hold()
    clock.now = 1.0
    assert all([not (await sessions.resolve({}, "s1", TRACE_ID)).provisional for _ in range(2)])
    assert slow.reads == 2  # One for both, and it is heard in the end.
    slow.told.set()
    with pytest.raises(SessionClosed):
        await sessions.resolve({}, "s1", TRACE_ID)


@pytest.mark.parametrize("still_waits", [True, False])
async def test_a_look_that_began_before_a_change_does_not_take_it_back(store: Store, still_waits: bool) -> None:
    slow, clock = Slow(store), Clock()
    sessions = Sessions(slow, clock=clock, patience=Patience(60))  # type: ignore[arg-type]
    await sessions.create(Session("s1", NOW))
    slow.hold()
    clock.now = 5.0
    looking = asyncio.create_task(sessions.resolve({}, "s1", TRACE_ID))
    await slow.looked.wait()
    await sessions.change("s1", attempt=1)
    if still_waits:
        slow.told.set()
    assert (await looking).session.attempt == 1
    slow.told.set()
    assert (await sessions.resolve({}, "s1", TRACE_ID)).session.attempt == 1


class EverySession:
    """A store that has every session, and remembers which it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def find_session(self, session_id: str) -> Session:
        self.asked.append(session_id)
        return Session(session_id, NOW)


async def test_the_ten_thousand_sessions_used_last_are_kept() -> None:
    store = EverySession()
    sessions = Sessions(store, clock=Clock())  # type: ignore[arg-type]
    for number in range(10_001):
        await sessions.resolve({}, f"s{number}", TRACE_ID)
    store.asked.clear()
    for session_id in ("s1", "s10000", "s0"):
        await sessions.resolve({}, session_id, TRACE_ID)
    assert store.asked == ["s0"]


async def test_reading_and_changing_say_when_there_is_no_session(store: Store) -> None:
    sessions = Sessions(store)
    await sessions.create(Session("gone", NOW))
    await sessions.delete("gone")
    for session_id, error in (("never", SessionNotFound), ("gone", SessionDeleted)):
        with pytest.raises(error):
            await sessions.get(session_id)
        with pytest.raises(error):
            await sessions.change(session_id, run_id="r")
        with pytest.raises(error):
            await sessions.finish(session_id)
        assert not await sessions.delete(session_id)


async def test_a_session_is_made_once(store: Store) -> None:
    sessions = Sessions(store)
    created, key = await sessions.create(Session("s1", NOW, run_id="r"))
    assert created.run_id == "r"
    assert key.startswith("rgs-")
    with pytest.raises(SessionExists):
        await sessions.create(Session("s1", NOW))
    with pytest.raises(Refusal):
        await sessions.create(Session("../s1", NOW))
    assert (await sessions.list(SessionQuery(run_id="r"))).items == (created,)
