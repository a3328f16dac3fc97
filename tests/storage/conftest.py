"""The store's tests run on both databases: each `place` is an empty one that has this program's schema."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import delete, update

from storage.opening import open_database
from storage.store import Store
from storage.tables import counters, metadata
from tests.databases import make_database
from tests.postgres import Postgres
from tests.storage.behind import behind


@pytest.fixture(scope="session")
def migrated_postgres(postgres: Postgres) -> str:
    """The URL of a migrated database that tests use one after the other, for to make one takes 50 times as long."""
    url = postgres.database()
    open_database(url).close()
    return url


def emptied(postgres: Postgres, url: str) -> str:
    """Without what the test before left in it, be it a connection."""
    name = urlsplit(url).path.lstrip("/")
    postgres.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")  # noqa: S608
    with behind(url) as db:
        for table in metadata.tables.values():
            db.execute(update(table).values(value=0) if table is counters else delete(table))
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A URL. The SQLite file is `rollouts.db` in `tmp_path`, and so is what a PostgreSQL has in the working folder."""
    if request.param == "sqlite":
        make_database(tmp_path / "rollouts.db")
        return f"sqlite:///{tmp_path / 'rollouts.db'}"
    monkeypatch.chdir(tmp_path)
    return emptied(request.getfixturevalue("postgres"), request.getfixturevalue("migrated_postgres"))


on_sqlite = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
"""For what is SQLite's own, such as a file that is locked."""
on_postgres = pytest.mark.parametrize("place", ["postgres"], indirect=True)


@pytest.fixture
async def store(place: str) -> AsyncIterator[Store]:
    store = Store.open(place, gateway_id="gateway-1")
    yield store
    await store.close()
