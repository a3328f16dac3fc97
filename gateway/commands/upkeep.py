"""`db prune` and `db sizes`, on a database itself or through the gateway that has it open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

import msgspec
from rich.filesize import decimal
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from gateway.api.storage import Prune, StorageReport
from gateway.commands.errors import CommandFailed
from gateway.commands.opening import open_existing
from gateway.commands.remote import Remote, decode
from gateway.commands.screen import Screen
from gateway.commands.table import Column
from storage.database import Database
from storage.errors import AlreadyServed, StorageError
from storage.sqlite import SqliteDatabase
from storage.upkeep import Pruned, Upkeep

Result = TypeVar("Result")

_PATIENCE_S: Final = 86_400.0


class Keeper(Protocol):
    """Whoever can prune and weigh."""

    def prune(self, asked: Prune) -> Pruned: ...
    def sizes(self) -> StorageReport: ...


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway's database, by its API."""

    remote: Remote

    def prune(self, asked: Prune) -> Pruned:
        """Again and again until all is done."""
        body = asked.model_dump_json(exclude_none=True).encode()
        pruned = decode(self.remote.post("/api/admin/prune", body), Pruned)
        while pruned.more and not asked.dry_run:
            pruned = _both(pruned, decode(self.remote.post("/api/admin/prune", body), Pruned))
        return pruned

    def sizes(self) -> StorageReport:
        return self.remote.read("/api/admin/storage", {}, StorageReport)


@dataclass(frozen=True, slots=True)
class Direct:
    """A database that this process opens. A SQLite file only while no gateway has it."""

    url: str

    def prune(self, asked: Prune) -> Pruned:
        query = asked.query()
        with _opened(self.url) as (database, upkeep):
            if asked.dry_run:
                return asyncio.run(upkeep.preview(query))
            pruned = asyncio.run(upkeep.prune(query, seconds=_PATIENCE_S))
            if isinstance(database, SqliteDatabase) and pruned.sessions and not pruned.given_back_bytes:
                return replace(pruned, given_back_bytes=max(0, database.rewrite()))
            return pruned

    def sizes(self) -> StorageReport:
        with _opened(self.url) as (_, upkeep):
            sizes = asyncio.run(upkeep.sizes())
        return StorageReport(sizes.database.bytes, sizes.database.free_bytes, sizes.runs)


def prune(keeper: Keeper, asked: Prune, screen: Screen, *, sure: Callable[[str], bool]) -> None:
    """Asks whoever sits there before anything goes, unless that is `sure` already."""
    if not asked.dry_run:
        wanted = keeper.prune(asked.model_copy(update={"dry_run": True}))
        if wanted.sessions and not sure(_told(wanted)):
            screen.note("Nothing was deleted.")
            return
    pruned = keeper.prune(asked)
    if screen.as_json:
        screen.json(msgspec.json.encode(pruned))
        return
    verb = "Would go" if asked.dry_run else "Deleted"
    screen.line(f"{verb}: {_told(pruned)}.")
    if pruned.given_back_bytes:
        screen.line(f"The database's file is {decimal(pruned.given_back_bytes)} shorter.")


def sizes(keeper: Keeper, screen: Screen) -> None:
    report = keeper.sizes()
    if screen.as_json:
        screen.json(msgspec.json.encode(report))
        return
    screen.table(
        [
            Column("RUN", 0, tuple(run.run_id or "(none)" for run in report.runs)),
            Column("SESSIONS", 1, tuple(str(run.sessions) for run in report.runs)),
            Column("TRACES", 1, tuple(str(run.traces) for run in report.runs)),
            Column("PAYLOADS", 0, tuple(decimal(run.bytes) for run in report.runs)),
        ]
    )
    free = "" if report.free_bytes is None else f", {decimal(report.free_bytes)} of it free"
    screen.note(f"The database takes {decimal(report.bytes)} on disk{free}.")


def _told(pruned: Pruned) -> str:
    told = f"{pruned.sessions} sessions with {pruned.traces} traces, {decimal(pruned.bytes)}"
    return f"{told}; {pruned.undelivered} of them no consumer has acknowledged" if pruned.undelivered else told


def _both(one: Pruned, other: Pruned) -> Pruned:
    return Pruned(
        sessions=one.sessions + other.sessions,
        traces=one.traces + other.traces,
        bytes=one.bytes + other.bytes,
        undelivered=one.undelivered + other.undelivered,
        given_back_bytes=one.given_back_bytes + other.given_back_bytes,
        more=other.more,
    )


@contextmanager
def _opened(url: str) -> Iterator[tuple[Database, Upkeep]]:
    """Raises CommandFailed."""
    try:
        database = open_existing(url)
    except AlreadyServed as exc:
        raise CommandFailed(
            f"{exc} Or ask that gateway itself, at its own address: --url http://127.0.0.1:9090"
        ) from exc
    except StorageError as exc:
        raise CommandFailed(str(exc)) from exc

    async def read(query: Callable[..., Result], *args: Any) -> Result:
        with database.read() as db:
            return query(db, *args)

    async def write(session_id: str | None, run: Callable[[Connection], Result]) -> Result:
        with database.write_connection() as db, db.begin():
            return run(db)

    try:
        yield database, Upkeep(database, read, write, database.now)
    except (StorageError, DBAPIError) as exc:
        raise CommandFailed(
            f"the database does not answer: {exc}; what is gone is gone, go on with the same command"
        ) from exc
    finally:
        database.close()
