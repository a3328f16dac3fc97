"""Each revision over a database of the one before it, with rows in it: what it must not lose, and what it adds."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from sqlalchemy import Connection, MetaData, Table, insert, select, text

from adapters.schema import Session
from adapters.token_ids import TokenIds
from storage.keys import StoredKey
from storage.migrate import migrate, revisions
from storage.opening import open_database
from storage.parents import unpack
from storage.records import EndedQuery, StoredBackend
from storage.store import Store
from storage.tables import traces
from storage.weights import StoredPause
from tests.postgres import Postgres
from tests.storage.behind import behind
from tests.storage.examples import NOON, call

Rows: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""By their tables, as the revision before has them."""


@dataclass(frozen=True)
class Upgrade:
    """From the revision before, filled with these rows, to this program's schema."""

    since: str
    rows: Rows
    check: Callable[[Store], Awaitable[None]]
    gone: tuple[str, ...] = ()
    """Tables whose rows stand elsewhere now."""


def _session(session_id: str, **told: Any) -> dict[str, Any]:
    row = {"run_id": None, "status": "open", "created_at": NOON, "finished_at": None, "details": b"{}"}
    return {"session_id": session_id, "attempt": 0, "implicit": False} | row | told


def _trace(session_id: str, trace_id: str, turn: int = 0) -> dict[str, Any]:
    row = {"attempt": 0, "dialect": "chat", "status": "ok", "purpose": "train", "usage_estimated": False, "depth": 0}
    verdict = {"fidelity": "none", "logprobs_fidelity": "none", "started_at": NOON, "schema_version": 1}
    return {"session_id": session_id, "trace_id": trace_id, "turn": turn, "text": b"\0"} | row | verdict


_SESSIONS = [
    _session("open", run_id="r"),
    _session(
        "third",
        run_id="r",
        status="finished",
        finished_at=NOON + timedelta(seconds=30),
        details=b'{"metadata":{"a":1}}',
    ),
    _session("first", status="failed", finished_at=NOON + timedelta(seconds=10)),
    _session("second", run_id="r", status="aborted", created_at=NOON + timedelta(seconds=20)),
]
_SESSIONS_1 = [row | {"next_turn": 1 if row["session_id"] == "open" else 0} for row in _SESSIONS]


async def _ended_sessions_have_their_places(store: Store) -> None:
    found = (await store.ended_sessions(EndedQuery(statuses=("finished", "failed", "aborted")))).items
    assert [session.session_id for session in found] == ["first", "second", "third"]
    assert found[2].metadata == {"a": 1}
    assert await store.session("open") == Session("open", NOON, run_id="r")
    await store.finish_session("open")
    assert [session.session_id for session in (await store.ended_sessions(EndedQuery())).items] == ["third", "open"]


def _digest(*ids: int) -> bytes:
    return sha256(bytes(TokenIds(ids))).digest()[:16]


_ENDS_OF_OPEN = [
    {"session_id": "open", "trace_id": "t", "index": 0, "end_len": 2, "digest": _digest(1, 2)},
    {"session_id": "open", "trace_id": "t", "index": 1, "end_len": 3, "digest": _digest(1, 2, 3)},
]
_MANY_TRACES = [_trace("third", f"t{number:04}", number) for number in range(1, 1501)]
_MANY_ENDS = [
    {key: row[key] for key in ("session_id", "trace_id")}
    | {"index": index, "end_len": row["turn"], "digest": bytes(16)}
    for row in _MANY_TRACES
    for index in range(3)
]
_WIDE_ENDS = [
    {"session_id": "first", "trace_id": "wide", "index": index, "end_len": 1, "digest": bytes(16)}
    for index in range(1200)
]
_PACKED = struct.Struct("<II16s")


async def _calls_go_on_from_what_was_there(store: Store) -> None:
    going_on = call("open", [1, 2, 3, 4], [5])
    await store.finish(going_on, timeout=10)
    found = await store.trace(going_on.trace_id)
    assert found is not None
    assert (found.turn, found.parent_trace_id, found.parent_index) == (1, "t", 1)
    assert _indexes(store, "third") == [[0, 1, 2]] * 1500
    assert _indexes(store, "first") == [list(range(1200))]


async def _the_next_turn_is_one_more_than_there_are(store: Store) -> None:
    going_on = call("open", [1, 2, 3, 4], [5])
    await store.finish(going_on, timeout=10)
    found = await store.trace(going_on.trace_id)
    assert found is not None
    assert (found.turn, found.parent_trace_id, found.parent_index) == (1, "t", 1)


async def _a_key_can_be_made_and_is_heard_of(store: Store) -> None:
    before = await store.keys.changes()
    await store.keys.add(StoredKey(key_id="k", name="a", scopes=("infer",), created_at=NOON), b"digest")
    assert await store.keys.changes() == before + 1
    assert [key.key_id for key in (await store.keys.live()).by_hash.values()] == ["k"]


def _indexes(store: Store, session_id: str) -> list[list[int]]:
    ends = select(traces.c.trace_id, traces.c.ends).where(traces.c.session_id == session_id)
    with store.database.read() as db:
        return [[end.index for end in unpack(*row)] for row in db.execute(ends)]


_TRACE_WITH_ENDS = _trace("open", "t") | {
    "ends": b"".join(_PACKED.pack(end["index"], end["end_len"], end["digest"]) for end in _ENDS_OF_OPEN)
}

_BACKEND = {"name": "a", "url": "http://a:8000", "engine": "vllm", "features": [], "models": ["m"]}


async def _a_backend_serves_on_and_can_be_drained(store: Store) -> None:
    before = StoredBackend("a", "http://a:8000", engine="vllm", models=("m",))
    assert await store.backends.every() == (before,)
    assert await store.backends.change(replace(before, state="draining"), ["state"])
    assert await store.backends.every() == (replace(before, state="draining"),)


_WEIGHTED_BACKEND = _BACKEND | {"weight": 2.0, "aliases": {}, "source": "api", "state": "serving"}


async def _a_backend_can_be_paused(store: Store) -> None:
    assert [(backend.weight, backend.control_urls) for backend in await store.backends.every()] == [(2.0, ())]
    pause = StoredPause("p", None, ("a",), "hold", False, None, 1, None, NOON, NOON)
    assert (await store.weights.pause(pause, 60.0)).covers("a")
    assert [known.pause_id for known in (await store.weights.known()).pauses] == ["p"]


async def _its_gateway_is_heard_of_and_what_it_left_in_its_spool(store: Store) -> None:
    (left,) = [heard for heard in await store.gateways() if heard.gateway_id == "left"]
    assert (left.spool_depth, left.spool_oldest_s) == (3, None)


UPGRADES = [
    Upgrade(
        "0001",
        {"sessions": _SESSIONS_1, "traces": [_trace("open", "t")]},
        _ended_sessions_have_their_places,
        gone=("ends",),
    ),
    Upgrade(
        "0002",
        {
            "sessions": _SESSIONS_1,
            "traces": [_trace("open", "t"), *_MANY_TRACES, _trace("first", "wide")],
            "ends": [*_ENDS_OF_OPEN, *_MANY_ENDS, *_WIDE_ENDS],
        },
        _calls_go_on_from_what_was_there,
        gone=("ends",),
    ),
    Upgrade("0003", {"sessions": _SESSIONS_1, "traces": [_TRACE_WITH_ENDS]}, _the_next_turn_is_one_more_than_there_are),
    Upgrade("0004", {"sessions": _SESSIONS, "traces": [_TRACE_WITH_ENDS]}, _the_next_turn_is_one_more_than_there_are),
    Upgrade("0005", {"sessions": _SESSIONS, "traces": [_TRACE_WITH_ENDS]}, _the_next_turn_is_one_more_than_there_are),
    Upgrade("0006", {"sessions": _SESSIONS, "traces": [_TRACE_WITH_ENDS]}, _a_key_can_be_made_and_is_heard_of),
    Upgrade("0007", {"backends": [_BACKEND]}, _a_backend_serves_on_and_can_be_drained),
    Upgrade("0008", {"backends": [_WEIGHTED_BACKEND]}, _a_backend_can_be_paused),
    Upgrade(
        "0009",
        {"gateways": [{"gateway_id": "left", "heartbeat_at": NOON, "spool_depth": 3}]},
        _its_gateway_is_heard_of_and_what_it_left_in_its_spool,
    ),
]


def test_every_revision_but_the_last_is_gone_on_from() -> None:
    assert [upgrade.since for upgrade in UPGRADES] == revisions()[:-1]


@pytest.fixture(params=["sqlite", "postgres"])
def nothing(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without any table."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'a.db'}"
    server: Postgres = request.getfixturevalue("postgres")
    return server.database()


@pytest.mark.parametrize("upgrade", UPGRADES, ids=lambda upgrade: upgrade.since)
async def test_a_database_of_an_earlier_revision_goes_on(nothing: str, tmp_path: Path, upgrade: Upgrade) -> None:
    with behind(nothing) as db:
        migrate(db, to=upgrade.since)
    with behind(nothing) as db:
        present = _tables(db)
        for name, rows in upgrade.rows.items():
            db.execute(insert(present[name]), [*rows])
        # A counter more is no row of anyone's.
        counts = _counts(db, [name for name in present if name not in (*upgrade.gone, "counters")])
    database = open_database(nothing)
    with database.read() as db:
        assert _counts(db, list(counts)) == counts
    store = Store.start(database, gateway_id="gateway-1", spool=tmp_path / "spool")
    try:
        await upgrade.check(store)
    finally:
        await store.close()


def _tables(db: Connection) -> dict[str, Table]:
    present = MetaData()
    present.reflect(db)
    return {name: table for name, table in present.tables.items() if name != "alembic_version"}


def _counts(db: Connection, tables: list[str]) -> dict[str, int]:
    return {name: db.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in tables}  # noqa: S608
