"""What long sessions take on disk, as a ratio to plain JSON of the same calls, in three forms.

    python -m benchmarks.sizes [postgresql://…]

The JSON is counted at its least: compact, one document a call with whole prompts, ids, logprobs and request, and
nothing for a database around it. Ours is what the database grows by, its pages, indexes and all.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from typing import Final

from sqlalchemy import create_engine, make_url, text

from adapters.schema import Session, Trace
from benchmarks.long_sessions import FORMS, as_json
from benchmarks.storage import Corpus
from storage.records import TraceQuery
from storage.store import Store

_SIZES: Final = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
    # Tables, their indexes, and the large values that stand beside them (TOAST).
    "postgresql": "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND oid >= 16384",
}


async def record(place: str, traces: list[Trace]) -> list[Trace]:
    """As gateways do, each call begun, ended and committed before the next; and what is read back of it."""
    store = Store.open(place, gateway_id="sizes")
    try:
        for one in traces:
            store.begin(one, Session(one.session_id, one.started_at))
            await store.finish(one, timeout=60)
        page = await store.traces(TraceQuery(session_id=traces[0].session_id if traces else "", limit=1_000))
        return list(page.items)
    finally:
        await store.close()


def size_of(place: str) -> int:
    """Bytes on disk: SQLite's file, or all tables that a PostgreSQL database has."""
    url = make_url(place)
    engine = create_engine(url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
            if engine.dialect.name == "postgresql":  # What running rows have left is free for the next.
                db.execute(text("VACUUM"))
            return int(db.scalar(text(_SIZES[engine.dialect.name])) or 0)
    finally:
        engine.dispose()


def as_documents(traces: list[Trace]) -> int:
    """Bytes of the same calls as JSON."""
    return sum(len(as_json(one)) for one in traces)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for place in (f"sqlite:///{name}/rollouts.db", *sys.argv[1:]):
            for form in FORMS:
                traces = list(form(Corpus.read(), form.__name__))
                asyncio.run(record(place, []))
                before, plain = size_of(place), as_documents(traces)
                asyncio.run(record(place, traces))
                ours = size_of(place) - before
                print(
                    f"{make_url(place).drivername:<11} {form.__name__:<22} JSON {plain / 1e3:7,.0f} KB   "
                    f"ours {ours / 1e3:5,.0f} KB   1/{plain / ours:.1f}"
                )


if __name__ == "__main__":
    main()
