"""Keys at two gateways of one database: made, revoked and used at one, heeded at the other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from gateway.keys import Callers, KeyRing, digest, new_key
from gateway.refusals import NotRecordable
from storage.errors import Unavailable
from storage.keys import KeySet, StoredKey

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Kept:
    """Keys in memory, with every question that was asked."""

    def __init__(self) -> None:
        self.keys: dict[str, StoredKey] = {}
        self.count = 0
        self.away = False
        self.asked: list[str] = []
        self.written: list[Mapping[str, datetime]] = []

    def make(self, key_id: str) -> str:
        key = new_key()
        self.keys[key] = StoredKey(key_id=key_id, name=key_id, scopes=("infer",), created_at=NOW)
        self.count += 1
        return key

    def revoke(self, key: str) -> None:
        del self.keys[key]
        self.count += 1

    async def changes(self) -> int:
        self._ask("changes")
        return self.count

    async def live(self) -> KeySet:
        self._ask("live")
        by_hash = {digest(key): stored for key, stored in self.keys.items()}
        return KeySet(self.count, by_hash, frozenset({"infer"}) if self.count else frozenset())

    async def used(self, at: Mapping[str, datetime]) -> None:
        self._ask("used")
        self.written.append(at)

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.away:
            raise Unavailable("away")


async def test_a_known_key_costs_the_database_nothing() -> None:
    kept = Kept()
    key = kept.make("a")
    callers = Callers(KeyRing(["agent"]), kept, shared=True)
    async with callers.followed():
        kept.asked.clear()
        for _ in range(100):
            assert await callers.find(key) is not None
            assert await callers.find("agent") is not None
            assert await callers.find("no key of ours") is None
        assert kept.asked == []


async def test_a_key_made_elsewhere_is_good_at_once_and_a_revoked_one_is_over_within_seconds() -> None:
    kept = Kept()
    callers = Callers(KeyRing(), kept, shared=True)
    async with callers.followed():
        key = kept.make("a")
        assert await callers.find(key) is not None
        kept.revoke(key)
        async with asyncio.timeout(3):
            while await callers.find(key) is not None:
                await asyncio.sleep(0.01)


async def test_however_many_unknown_keys_come_the_database_is_asked_a_few_times() -> None:
    kept = Kept()
    callers = Callers(KeyRing(), kept, shared=True)
    async with callers.followed():
        kept.asked.clear()
        found = await asyncio.gather(*(callers.find(new_key()) for _ in range(1000)))
        assert set(found) == {None}
        assert len(kept.asked) <= 3


async def test_while_the_database_is_away_what_is_known_holds_and_what_is_not_may_come_again() -> None:
    kept = Kept()
    key = kept.make("a")
    callers = Callers(KeyRing(), kept, shared=True)
    async with callers.followed():
        kept.away = True
        assert await callers.find(key) is not None
        with pytest.raises(NotRecordable) as caught:
            await callers.find(new_key())
        assert ("x-should-retry", "true") in caught.value.headers
        kept.away = False


async def test_the_last_uses_are_written_at_the_end_at_the_latest_and_not_lost_on_the_way() -> None:
    kept = Kept()
    key = kept.make("a")
    ring = KeyRing(clock=lambda: NOW)
    callers = Callers(ring, kept)
    async with callers.followed():
        await callers.find(key)
    assert kept.written == [{"a": NOW}]
    kept.away = True
    ring.caller(key)
    with pytest.raises(Unavailable):
        await callers.refresh()
    assert ring.used == {"a": NOW}
