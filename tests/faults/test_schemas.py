"""D19: gateways that start at once on an empty database, tables changed under load, a schema from the future."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

from tests.faults.load import at_once
from tests.faults.tally import Tally
from tests.faults.world import World, world
from tests.postgres import Postgres

_GATEWAYS = 3
_SESSIONS = 9
_CALLS = 6
_LOCKED_S = 1.0
_NEWER = "v9999"
_ADVICE = "a newer rollout-gateway has migrated it"


async def newer_schemas(folder: Path, count: int) -> Tally:
    """A gateway is started on a newer schema, in vain; with its own again it goes on."""
    tally = Tally("D19", "a schema newer than the program, SQLite", count)
    path = folder / "rollouts.db"
    async with world(folder) as run:
        for _ in range(count):
            await _load(run)
            await run.gateway.stop()
            version = _version(path, _NEWER)
            before = _dump(path)
            try:
                await run.gateway.start()
                tally.broken.append("it started on a schema that it does not know")
            except RuntimeError as exc:
                tally.expect(_ADVICE in str(exc), f"it did not say what to do: {exc}")
            tally.expect(_dump(path) == before, "the refused database was changed")
            _version(path, version)
            await run.gateway.start()
        await _load(run)
        await run.idle()
        tally.add(await run.findings())
    return tally


async def changed_tables(folder: Path, count: int, server: Postgres) -> Tally:
    """Each time three gateways start at once on an empty database, and its tables are changed while calls are made."""
    tally = Tally("D19", "three start on an empty database, which is changed under load, PostgreSQL", count)
    for at in range(count):
        place = folder / f"round-{at}"
        place.mkdir()
        database = server.database()
        async with world(place, database=database, gateways=_GATEWAYS) as run:
            loads = asyncio.gather(*(_load(run, gateway) for gateway in range(_GATEWAYS)))
            await asyncio.sleep(0.1)
            await asyncio.to_thread(_change, database, at)
            await loads
            for gateway in range(_GATEWAYS):
                await run.idle(gateway=gateway)
                await run.settled(gateway=gateway, seconds=60)
            for heard in run.heard:
                tally.expect(heard.status == 200, f"call {heard.number} got {heard.status} while tables were changed")
            tally.add(await run.findings())
    return tally


def _change(database: str, at: int) -> None:
    """What a migration of a later version might do: tables are locked, and have a column more.

    It locks two, and gateways read both: where each has what the other waits for the server ends one of them. A gateway
    tries again by itself, and this as an administrator would.
    """
    while True:
        try:
            _alter(database, at)
        except psycopg.errors.DeadlockDetected:
            continue
        return


def _alter(database: str, at: int) -> None:
    with psycopg.connect(database) as db:
        for table in ("traces", "sessions"):
            db.execute(f"ALTER TABLE {table} ADD COLUMN later_{at} integer")
        db.execute("SELECT pg_sleep(%s)", [_LOCKED_S])


async def _load(run: World, gateway: int = 0) -> None:
    name = f"{gateway}-{len(run.heard)}"

    async def play(at: int) -> None:
        chance = random.Random(at)
        for _ in range(_CALLS):
            await run.call(f"session-{name}-{at}", stream=chance.random() < 0.5, gateway=gateway)
            await asyncio.sleep(chance.uniform(0.0, 0.1))

    await at_once(play, _SESSIONS // _GATEWAYS)


def _version(path: Path, version: str) -> str:
    """Write another one; the one before."""
    with closing(sqlite3.connect(path)) as db, db:
        (before,) = db.execute("SELECT version_num FROM alembic_version").fetchone()
        db.execute("UPDATE alembic_version SET version_num = ?", [version])
    return str(before)


def _dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [*db.iterdump()]


async def test_a_schema_from_the_future_is_refused_with_advice_and_left_as_it_is(tmp_path: Path) -> None:
    """docs/promises.md D19."""
    tally = await newer_schemas(tmp_path, 1)
    assert tally.clean, tally.complaints()


async def test_gateways_that_start_at_once_and_tables_that_change_under_load_corrupt_nothing(
    tmp_path: Path, postgres: Postgres
) -> None:
    """docs/promises.md D19."""
    tally = await changed_tables(tmp_path, 1, postgres)
    assert tally.clean, tally.complaints()
