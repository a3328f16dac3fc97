"""Whose a key is, without asking anyone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.keys import KeyRing, digest
from gateway.refusals import Forbidden
from storage.keys import KeySet, StoredKey
from storage.scopes import SCOPES

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def stored(name: str = "k", **told: Any) -> StoredKey:
    return StoredKey(**{"key_id": name, "name": name, "scopes": ("infer",), "created_at": NOW, **told})


def key_set(*keys: StoredKey, changes: int = 1) -> KeySet:
    """Each key's text is its id."""
    ever = frozenset(scope for key in keys for scope in key.scopes)
    return KeySet(changes, {digest(key.key_id): key for key in keys}, ever)


def test_configured_keys_have_their_scopes_and_others_are_nobodys() -> None:
    ring = KeyRing(["one", "two"], "admin")
    for key, by, scopes in (("one", "keys.1", {"infer"}), ("two", "keys.2", {"infer"}), ("admin", "admin_key", SCOPES)):
        caller = ring.caller(key)
        assert caller is not None
        assert (caller.by, caller.scopes) == (by, frozenset(scopes))
    for key in ("", "onE", "one ", "three", "\udcff"):
        assert ring.caller(key) is None


def test_a_key_that_is_both_is_the_administrators() -> None:
    caller = KeyRing(["same"], "same").caller("same")
    assert caller is not None
    assert caller.by == "admin_key"


def test_a_stored_key_is_good_until_it_expires_or_is_no_more() -> None:
    now = NOW
    ring = KeyRing(clock=lambda: now)
    ring.take(key_set(stored("a", expires_at=NOW + timedelta(seconds=10)), stored("b")))
    assert [ring.caller(key) is not None for key in ("a", "b", "c")] == [True, True, False]
    now = NOW + timedelta(seconds=10)
    assert [ring.caller(key) is not None for key in ("a", "b", "c")] == [False, True, False]
    ring.take(key_set(stored("a")))
    assert [ring.caller(key) is not None for key in ("a", "b", "c")] == [True, False, False]


def test_uses_of_good_keys_are_noted() -> None:
    ring = KeyRing(["agent"], clock=lambda: NOW)
    ring.take(key_set(stored("a"), stored("b", expires_at=NOW)))
    for key in ("a", "b", "c", "agent"):
        ring.caller(key)
    assert ring.used == {"a": NOW}


def test_a_gateway_that_had_keys_does_not_open_when_the_last_is_gone() -> None:
    ring = KeyRing()
    assert (ring.needs_keys, ring.needs_agents_keys, ring.opens_api) == (False, False, False)
    ring.take(key_set(stored("a", scopes=("admin",))))
    assert (ring.needs_keys, ring.needs_agents_keys, ring.opens_api) == (True, False, True)
    ring.take(key_set(stored("b", scopes=("infer",))))
    ring.take(key_set())
    assert (ring.needs_keys, ring.needs_agents_keys, ring.opens_api) == (True, True, False)


def test_what_a_key_has_used_outlives_a_change_to_it() -> None:
    ring = KeyRing()
    ring.take(key_set(stored("a", calls_per_minute=1)))
    before = ring.caller("a")
    assert before is not None
    assert before.meter is not None
    before.meter.calls.add(1, 0.0)
    ring.take(key_set(stored("a", calls_per_minute=2)))
    after = ring.caller("a")
    assert after is not None
    assert (after.calls_per_minute, after.meter is before.meter) == (2, True)


def test_no_key_makes_one_that_may_do_more_or_outlives_it() -> None:
    ring = KeyRing(clock=lambda: NOW)
    ring.take(key_set(stored("a", scopes=("admin", "infer"), expires_at=NOW + timedelta(days=1))))
    caller = ring.caller("a")
    assert caller is not None
    caller.check_no_wider(["infer"], NOW + timedelta(days=1))
    with pytest.raises(Forbidden, match="`trace:read`"):
        caller.check_no_wider(["infer", "trace:read"], NOW)
    for beyond in (None, NOW + timedelta(days=2)):
        with pytest.raises(Forbidden, match="outlives"):
            caller.check_no_wider(["infer"], beyond)
