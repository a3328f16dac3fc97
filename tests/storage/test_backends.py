"""Backends as administrators left them, for whoever starts next and for whoever serves beside."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from adapters.schema import Session
from storage.records import StoredBackend
from storage.store import Store

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
ADDED = StoredBackend("a", "http://a:8000", engine="vllm", aliases={"gpt-4o": "qwen3"}, weight=2.0)
CONFIGURED = StoredBackend("c", "http://c:8000", source="config")


@pytest.fixture
async def store(place: str) -> AsyncIterator[Store]:
    opened = Store.open(place, gateway_id="gateway-1")
    yield opened
    await opened.close()


async def test_what_two_administrators_change_of_one_backend_both_stays(store: Store) -> None:
    await store.backends.put(ADDED)
    assert await store.backends.change(replace(ADDED, state="draining"), ["state"])
    assert await store.backends.change(replace(ADDED, weight=0.5, models=("m",)), ["weight", "models"])
    assert await store.backends.every() == (replace(ADDED, state="draining", weight=0.5, models=("m",)),)


async def test_one_that_was_removed_is_not_brought_back_by_a_change(store: Store) -> None:
    assert not await store.backends.change(replace(ADDED, state="draining"), ["state"])
    assert await store.backends.every() == ()


async def test_one_of_the_configuration_is_there_from_its_first_change_on(store: Store) -> None:
    assert await store.backends.change(replace(CONFIGURED, state="draining"), ["state"])
    assert await store.backends.change(replace(CONFIGURED, weight=3.0), ["weight"])
    assert await store.backends.every() == (replace(CONFIGURED, state="draining", weight=3.0),)


async def test_the_sessions_of_a_backend_are_those_that_have_it_and_have_not_ended(store: Store) -> None:
    for session_id, backend in (("s1", "a"), ("s2", "a"), ("s3", "b"), ("s4", None)):
        await store.create_session(Session(session_id, NOW, backend=backend))
    assert await store.backends.open_sessions("a") == 2
    await store.finish_session("s1")
    await store.delete_session("s2")
    assert await store.backends.open_sessions("a") == 0
