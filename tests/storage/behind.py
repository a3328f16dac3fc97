"""A database as another program reaches it, behind the store's back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine, make_url
from sqlalchemy.pool import NullPool


@contextmanager
def behind(place: str) -> Iterator[Connection]:
    """One transaction, committed at the end."""
    url = make_url(place)
    engine = create_engine(
        url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url, poolclass=NullPool
    )
    with engine.begin() as db:
        yield db
