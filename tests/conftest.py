"""What tests of every part share: one PostgreSQL for a whole run, and one of its own for a test that breaks it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Shared: take a `database` of it, and leave it running."""
    server = Postgres.make()
    yield server
    server.remove()


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """To be stopped, killed and paused."""
    server = Postgres.make()
    yield server
    server.remove()
