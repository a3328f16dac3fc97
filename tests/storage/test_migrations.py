"""Each revision over a database of the one before it, with rows in it: what it must not lose, and what it adds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, select, text

from adapters.schema import Session
from adapters.token_ids import TokenIds
from storage.database import Database
from storage.migrate import migrate
from storage.parents import unpack
from storage.records import EndedQuery
from storage.store import Store
from storage.tables import traces
from tests.storage.examples import NOON, call


@dataclass(frozen=True)
class Upgrade:
    """From the revision before, filled with these rows, to this program's schema."""

    since: str
    rows: tuple[str, ...]
    check: Callable[[Store], Awaitable[None]]
    gone: tuple[str, ...] = ()
    """Tables whose rows stand elsewhere now."""


_SESSIONS_1 = """
INSERT INTO sessions (session_id, run_id, status, created_at, finished_at, attempt, implicit, next_turn, details) VALUES
('open',   'r',  'open',     '2026-11-21 12:00:00.000000', NULL,                         0, 0, 1, '{}'),
('third', 'r', 'finished', '2026-11-21 12:00:00.000000', '2026-11-21 12:00:30.000000', 0, 0, 0, '{"metadata":{"a":1}}'),
('first',  NULL, 'failed',   '2026-11-21 12:00:00.000000', '2026-11-21 12:00:10.000000', 0, 0, 0, '{}'),
('second', 'r',  'aborted',  '2026-11-21 12:00:20.000000', NULL,                         0, 0, 0, '{}')
"""
_TRACES_1 = """
INSERT INTO traces (session_id, trace_id, turn, attempt, dialect, status, purpose, usage_estimated, fidelity,
                    logprobs_fidelity, started_at, schema_version, depth, text) VALUES
('open', 't', 0, 0, 'chat', 'ok', 'train', 0, 'none', 'none', '2026-11-21 12:00:00.000000', 1, 0, x'00')
"""


async def _ended_sessions_have_their_places(store: Store) -> None:
    found = (await store.ended_sessions(EndedQuery(statuses=("finished", "failed", "aborted")))).items
    assert [session.session_id for session in found] == ["first", "second", "third"]
    assert found[2].metadata == {"a": 1}
    assert await store.session("open") == Session("open", NOON, run_id="r")
    await store.finish_session("open")
    assert [session.session_id for session in (await store.ended_sessions(EndedQuery())).items] == ["third", "open"]


_ENDS_2 = f"""
INSERT INTO ends (session_id, trace_id, "index", end_len, digest) VALUES
('open', 't', 0, 2, x'{sha256(bytes(TokenIds([1, 2]))).hexdigest()[:32]}'),
('open', 't', 1, 3, x'{sha256(bytes(TokenIds([1, 2, 3]))).hexdigest()[:32]}')
"""  # noqa: S608
_MANY_TRACES = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1500)
INSERT INTO traces (session_id, trace_id, turn, attempt, dialect, status, purpose, usage_estimated, fidelity,
                    logprobs_fidelity, started_at, schema_version, depth, text)
SELECT 'third', printf('t%04d', n), n, 0, 'chat', 'ok', 'train', 0, 'none', 'none',
       '2026-11-21 12:00:00.000000', 1, 0, x'00'
FROM numbers
"""
_WIDE_ENDS = """
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1199)
INSERT INTO ends (session_id, trace_id, "index", end_len, digest)
SELECT 'first', 'wide', n, 1, zeroblob(16) FROM numbers
"""
_WIDE_TRACE = _TRACES_1.replace("'open', 't'", "'first', 'wide'")
_MANY_ENDS = """
INSERT INTO ends (session_id, trace_id, "index", end_len, digest)
SELECT session_id, trace_id, choice, turn, zeroblob(16)
FROM traces JOIN (SELECT 0 AS choice UNION SELECT 1 UNION SELECT 2) WHERE session_id = 'third'
"""


async def _calls_go_on_from_what_was_there(store: Store) -> None:
    going_on = call("open", [1, 2, 3, 4], [5])
    await store.finish(going_on, timeout=10)
    found = await store.trace(going_on.trace_id)
    assert found is not None
    assert (found.turn, found.parent_trace_id, found.parent_index) == (1, "t", 1)
    assert _indexes(store, "third") == [[0, 1, 2]] * 1500
    assert _indexes(store, "first") == [list(range(1200))]


def _indexes(store: Store, session_id: str) -> list[list[int]]:
    ends = select(traces.c.trace_id, traces.c.ends).where(traces.c.session_id == session_id)
    with store.database.read() as db:
        return [[end.index for end in unpack(*row)] for row in db.execute(ends)]


UPGRADES = [
    Upgrade("0001", (_SESSIONS_1, _TRACES_1), _ended_sessions_have_their_places, gone=("ends",)),
    Upgrade(
        "0002",
        (_SESSIONS_1, _TRACES_1, _ENDS_2, _MANY_TRACES, _MANY_ENDS, _WIDE_TRACE, _WIDE_ENDS),
        _calls_go_on_from_what_was_there,
        gone=("ends",),
    ),
]


@pytest.mark.parametrize("upgrade", UPGRADES, ids=lambda upgrade: upgrade.since)
async def test_a_database_of_an_earlier_revision_goes_on(tmp_path: Path, upgrade: Upgrade) -> None:
    path = tmp_path / "a.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as db:
        migrate(db, to=upgrade.since)
        before = [name for name in _tables(db) if name not in upgrade.gone]
        for rows in upgrade.rows:
            db.exec_driver_sql(rows)
        counts = _counts(db, before)
    engine.dispose()
    database = Database.open(path)
    with database.read() as db:
        assert _counts(db, before) == counts
    store = Store.start(database, gateway_id="gateway-1", spool=tmp_path / "spool")
    try:
        await upgrade.check(store)
    finally:
        await store.close()


def _tables(db: Connection) -> list[str]:
    names = db.scalars(text("SELECT name FROM sqlite_schema WHERE type = 'table'"))
    return sorted(name for name in names if name != "alembic_version")


def _counts(db: Connection, tables: list[str]) -> dict[str, int]:
    return {name: db.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in tables}  # noqa: S608
