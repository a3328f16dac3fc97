"""The table of scenarios: the only place that lists them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults import (
    test_absent_backends,
    test_bad_answers,
    test_bombs,
    test_changing_weights,
    test_dying_backends,
    test_full_disks,
    test_hanging_backends,
    test_huge_bodies,
    test_jumping_clocks,
    test_kills,
    test_kills_in_outages,
    test_leaving_agents,
    test_lost_databases,
    test_many_sessions,
    test_schemas,
    test_slow_readers,
    test_smuggled_requests,
    test_stopping_gateways,
    test_trickling_connections,
)
from tests.faults.tally import Tally
from tests.postgres import Postgres


@dataclass(frozen=True, slots=True)
class Scenario:
    """One fault, done so many times."""

    row: str
    name: str
    play: Callable[[Path, int], Awaitable[Tally]]
    takes: int = 1
    """Minutes, about, of a hundred: what is long begins first."""

    def matches(self, wanted: Iterable[str]) -> bool:
        """By a row, a part of the name, or `=` and the whole of it."""
        return any(each in (self.row.lower(), f"={self.name}") or each in self.name for each in wanted)


_FULL_RUN: Final = 100


@contextmanager
def _postgres() -> Iterator[Postgres]:
    server = Postgres.make()
    try:
        yield server
    finally:
        server.remove()


async def _kills_on_postgres(folder: Path, count: int) -> Tally:
    with _postgres() as server:
        return await test_kills.kills_on_postgres(folder, count, server.database())


async def _gateways_thought_dead(folder: Path, count: int) -> Tally:
    with _postgres() as server:
        return await test_kills.gateways_thought_dead(folder, count, server.database())


async def _changed_tables(folder: Path, count: int) -> Tally:
    with _postgres() as server:
        return await test_schemas.changed_tables(folder, count, server)


async def _sessions_on_sqlite(folder: Path, count: int) -> Tally:
    return await test_many_sessions.sessions_on_sqlite(folder, 10 * count)


async def _sessions_on_postgres(folder: Path, count: int) -> Tally:
    with _postgres() as server:
        return await test_many_sessions.sessions_on_postgres(folder, 100 * count, server.database())


async def _outages_of_sqlite(folder: Path, count: int) -> Tally:
    return await test_lost_databases.outages_of_sqlite(folder, _outages(count))


async def _outages_of_postgres(folder: Path, count: int) -> Tally:
    with _postgres() as server:
        return await test_lost_databases.outages_of_postgres(folder, _outages(count), server)


def _outages(count: int) -> list[float]:
    """Seconds of each. A full run begins with two minutes (a server stopped) and one (a server that hangs)."""
    return ([120.0, 60.0] if count >= _FULL_RUN else []) + [1.5] * count


async def _kills_while_stopped(folder: Path, count: int) -> Tally:
    with _postgres() as server:
        return await test_kills_in_outages.kills_while_stopped(folder, count, server)


async def _clocks_on_postgres(folder: Path, count: int) -> Tally:
    with _postgres() as server:
        return await test_jumping_clocks.clocks_that_jump(folder, count, server.database())


async def _slow_strangers(folder: Path, count: int) -> Tally:
    return await test_trickling_connections.slow_strangers(folder, 20 * count)


async def _streams_at_sigterm(folder: Path, count: int) -> Tally:
    return await test_stopping_gateways.gateways_that_stop(folder, 5 * count)


SCENARIOS: Final = (
    Scenario("D1", "dying-backends", test_dying_backends.backends_that_die),
    Scenario("D2", "absent-backends", test_absent_backends.backends_that_are_not_there),
    Scenario("D3", "hanging-backends", test_hanging_backends.backends_that_hang),
    Scenario("D4", "leaving-agents", test_leaving_agents.agents_that_leave),
    Scenario("D5", "slow-loris", _slow_strangers),
    Scenario("D6", "slow-readers", test_slow_readers.slow_readers, takes=5),
    Scenario("D7", "locked-sqlite", _outages_of_sqlite, takes=6),
    Scenario("D7", "lost-postgres", _outages_of_postgres, takes=8),
    Scenario("D7", "outage-and-kill-sqlite", test_kills_in_outages.kills_while_locked, takes=4),
    Scenario("D7", "outage-and-kill-postgres", _kills_while_stopped, takes=5),
    Scenario("D8", "full-disk", test_full_disks.disks_that_are_full, takes=3),
    Scenario("D9", "kills-sqlite", test_kills.kills_on_sqlite, takes=3),
    Scenario("D9", "kills-postgres", _kills_on_postgres, takes=6),
    Scenario("D9", "silent-gateway", _gateways_thought_dead),
    Scenario("D10", "sigterm", _streams_at_sigterm),
    Scenario("D11", "clocks-sqlite", test_jumping_clocks.clocks_that_jump),
    Scenario("D11", "clocks-postgres", _clocks_on_postgres),
    Scenario("D12", "malformed-streams", test_bad_answers.malformed_streams),
    Scenario("D13", "huge-bodies", test_huge_bodies.huge_bodies),
    Scenario("D14", "sessions-sqlite", _sessions_on_sqlite, takes=4),
    Scenario("D14", "sessions-postgres", _sessions_on_postgres, takes=15),
    Scenario("D15", "smuggling", test_smuggled_requests.smuggled_requests),
    Scenario("D16", "bombs", test_bombs.bombs),
    Scenario("D17", "changing-weights", test_changing_weights.weights_that_change),
    Scenario("D18", "lying-backends", test_bad_answers.backends_that_lie),
    Scenario("D19", "newer-schema", test_schemas.newer_schemas, takes=3),
    Scenario("D19", "changed-tables", _changed_tables, takes=6),
)
