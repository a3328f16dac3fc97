from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, event, select, update

from adapters.schema import Trace
from storage.errors import CorruptTrace
from storage.payloads import Payloads
from storage.store import Store
from storage.tables import AnyRow
from storage.tables import traces as rows
from tests.storage.behind import behind
from tests.storage.examples import call


async def grown(store: Store, turns: int) -> list[Trace]:
    """A session of which each call is stored against the one before."""
    calls, history = [], list(range(40))
    for turn in range(turns):
        trace = call("s", history, [turn, turn + 1], body=b"%a" % history)
        await store.finish(trace, timeout=5)
        calls.append(trace)
        history = [*history, turn, turn + 1]
    return calls


@contextmanager
def asked(db: Connection) -> Iterator[list[str]]:
    """The statements that the database gets meanwhile."""
    statements: list[str] = []

    def note(*told: Any) -> None:
        statements.append(told[2])

    event.listen(db, "before_cursor_execute", note)
    yield statements
    event.remove(db, "before_cursor_execute", note)


def row_of(db: Connection, trace: Trace) -> AnyRow:
    return db.execute(select(rows).where(rows.c.trace_id == trace.trace_id)).one()


async def test_however_deep_a_trace_stands_its_bases_are_read_in_one_statement(store: Store, place: str) -> None:
    calls = await grown(store, 12)
    with behind(place) as db:
        last = row_of(db, calls[-1])
        assert last.depth == 11
        with asked(db) as statements:
            payload = Payloads(db).of(last)
    assert payload.digest() == last.digest
    assert len(statements) == 1


async def test_what_was_read_is_not_read_again(store: Store, place: str) -> None:
    calls = await grown(store, 12)
    with behind(place) as db:
        payloads = Payloads(db)
        payloads.of(row_of(db, calls[5]))
        known, above = row_of(db, calls[6]), row_of(db, calls[8])
        with asked(db) as statements:
            payloads.of(known)
            assert statements == []
            payloads.of(above)
            assert len(statements) == 1


async def test_bases_that_go_in_a_circle_are_a_corrupt_trace(store: Store, place: str) -> None:
    calls = await grown(store, 4)
    with behind(place) as db:
        first = update(rows).where(rows.c.trace_id == calls[0].trace_id)
        db.execute(first.values(base_trace_id=calls[2].trace_id))
    with pytest.raises(CorruptTrace, match=calls[3].trace_id):
        await store.trace(calls[3].trace_id)
    with behind(place) as db:
        db.execute(first.values(base_trace_id=calls[0].trace_id))
    with pytest.raises(CorruptTrace, match=calls[0].trace_id):
        await store.trace(calls[0].trace_id)


async def test_another_sessions_trace_of_the_same_id_is_no_base(store: Store, place: str) -> None:
    calls = await grown(store, 3)
    with behind(place) as db:
        db.execute(update(rows).where(rows.c.trace_id == calls[0].trace_id).values(session_id="other"))
    with pytest.raises(CorruptTrace, match=f"base {calls[0].trace_id} is missing"):
        await store.trace(calls[2].trace_id)
