"""What is open without keys, and to whom."""

from __future__ import annotations

import logging

import pytest

from gateway.exposure import Exposed, check_exposure
from gateway.keys import KeyRing
from gateway.settings import Settings
from storage.keys import KeySet
from storage.scopes import Scope


def ring_that_had(*scopes: Scope) -> KeyRing:
    """No key is good any more; there were some."""
    ring = KeyRing()
    ring.take(KeySet(1, {}, frozenset(scopes)))
    return ring


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "gateway.example"])  # noqa: S104
def test_others_are_listened_to_only_where_agents_need_keys(host: str) -> None:
    for ring in (KeyRing(), KeyRing(admin="admin"), ring_that_had("admin")):
        with pytest.raises(Exposed, match="set ROLLOUT_GATEWAY_KEYS"):
            check_exposure(Settings(host=host), ring)
    for ring in (KeyRing(["a"]), ring_that_had("infer")):
        check_exposure(Settings(host=host), ring)


def test_administration_is_for_others_only_where_it_needs_a_key() -> None:
    settings = Settings(admin_host="0.0.0.0", admin_port=9091)  # noqa: S104
    with pytest.raises(Exposed, match="set ROLLOUT_GATEWAY_ADMIN_KEY"):
        check_exposure(settings, KeyRing())
    for ring in (KeyRing(admin="admin"), ring_that_had("admin")):
        check_exposure(settings, ring)


def test_the_log_says_what_is_open(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    check_exposure(Settings(), KeyRing())
    check_exposure(Settings(), KeyRing(admin="admin"))
    check_exposure(Settings(), KeyRing(["a"]))
    assert caplog.messages == [
        "no keys: every program on this machine may make calls, and administer; no other machine may",
        "no keys: every program on this machine may make calls; no other machine may",
    ]
