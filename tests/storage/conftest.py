from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage.store import Store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store.open(str(tmp_path / "rollouts.db"), gateway_id="gateway-1")
    yield store
    await store.close()
