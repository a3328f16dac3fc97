"""Keys as they are kept: as digests, with a count that tells of every change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from storage.errors import BadCursor, KeyNotFound, TooManyKeys
from storage.keys import MOST_LIVE, KeyQuery, StoredKey
from storage.store import Store
from storage.tables import keys
from tests.storage.behind import behind
from tests.storage.examples import NOON


def key(key_id: str, **told: Any) -> StoredKey:
    return StoredKey(**{"key_id": key_id, "name": "a", "scopes": ("infer",), "created_at": NOON, **told})


async def test_what_is_kept_of_a_key_is_what_was_told(store: Store) -> None:
    told = key(
        "k",
        name="trainers",
        note="of run 7",
        scopes=("trace:read", "reward:write"),
        created_by="admin_key",
        expires_at=NOON + timedelta(days=1),
        max_calls=3,
        calls_per_minute=60,
        tokens_per_minute=100_000,
    )
    await store.keys.add(told, b"digest")
    assert await store.keys.get("k") == told
    live = await store.keys.live()
    assert dict(live.by_hash) == {b"digest": told}
    assert live.scopes_ever == {"trace:read", "reward:write"}


async def test_every_change_is_counted_and_a_use_is_none(store: Store) -> None:
    counts = [await store.keys.changes()]
    await store.keys.add(key("k"), b"digest")
    counts.append(await store.keys.changes())
    await store.keys.change("k", name="b", scopes=("admin",), expires_at=None)
    counts.append(await store.keys.changes())
    await store.keys.used({"k": NOON})
    assert await store.keys.changes() == counts[-1]
    await store.keys.revoke("k", by="admin_key")
    counts.append(await store.keys.changes())
    assert [later - counts[0] for later in counts] == [0, 1, 2, 3]
    assert (await store.keys.live()).changes == counts[-1]


async def test_a_revoked_key_is_revoked_for_good_and_not_forgotten(store: Store) -> None:
    await store.keys.add(key("k"), b"digest")
    first = await store.keys.revoke("k", by="one")
    assert await store.keys.revoke("k", by="other") == first
    assert (first.revoked_by, first.revoked_at is not None) == ("one", True)
    live = await store.keys.live()
    assert (dict(live.by_hash), live.scopes_ever) == ({}, {"infer"})


async def test_the_last_use_never_goes_back(store: Store) -> None:
    await store.keys.add(key("k"), b"digest")
    await store.keys.used({"k": NOON, "none": NOON})
    await store.keys.used({"k": NOON - timedelta(minutes=1)})
    assert (await store.keys.get("k")).last_used_at == NOON
    await store.keys.used({"k": NOON + timedelta(minutes=1)})
    assert (await store.keys.get("k")).last_used_at == NOON + timedelta(minutes=1)


async def test_a_list_goes_on_where_its_page_ended(store: Store) -> None:
    for number in range(5):
        await store.keys.add(key(f"k{number}"), b"%d" % number)
    await store.keys.revoke("k3", by="a")
    first = await store.keys.page(KeyQuery(limit=3))
    rest = await store.keys.page(KeyQuery(limit=3, cursor=first.next))
    assert [each.key_id for each in (*first.items, *rest.items)] == ["k0", "k1", "k2", "k3", "k4"]
    assert rest.next is None
    assert [each.key_id for each in (await store.keys.page(KeyQuery(revoked=True))).items] == ["k3"]
    assert len((await store.keys.page(KeyQuery(revoked=False))).items) == 4
    with pytest.raises(BadCursor):
        await store.keys.page(KeyQuery(cursor="none"))


async def test_a_key_that_there_is_not_is_told_so(store: Store) -> None:
    for asked in (store.keys.get("k"), store.keys.change("k", name="a"), store.keys.revoke("k", by="a")):
        with pytest.raises(KeyNotFound):
            await asked


async def test_there_is_a_bound_to_what_every_gateway_has_in_memory(place: str, store: Store) -> None:
    row = {"name": "a", "scopes": ["infer"], "created_at": NOON}
    many = [{"key_id": f"k{number}", "key_hash": b"%d" % number, **row} for number in range(MOST_LIVE)]
    with behind(place) as db:
        db.execute(insert(keys), many)
    with pytest.raises(TooManyKeys):
        await store.keys.add(key("one-more"), b"one more")
    await store.keys.revoke("k0", by="a")
    await store.keys.add(key("one-more"), b"one more")
