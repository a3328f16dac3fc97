from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage.database import Database
from storage.store import Store


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file to copy, for migrating is the dear part of opening."""
    path = tmp_path_factory.mktemp("empty") / "rollouts.db"
    Database.open(path).close()
    return path


@pytest.fixture
async def store(tmp_path: Path, empty_database: Path) -> AsyncIterator[Store]:
    """On `rollouts.db` in `tmp_path`."""
    shutil.copy(empty_database, tmp_path / "rollouts.db")
    store = Store.open(tmp_path / "rollouts.db", gateway_id="gateway-1")
    yield store
    await store.close()
