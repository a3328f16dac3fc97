"""D14: thousands of sessions at once, over several gateways. No token is in another's session."""

from __future__ import annotations

import random
from pathlib import Path

from tests.faults.load import at_once
from tests.faults.tally import Tally
from tests.faults.world import PATIENT, World, world
from tests.postgres import Postgres

_TOKENS = 3


async def sessions_on_sqlite(folder: Path, count: int, *, calls: int = 20) -> Tally:
    tally = Tally("D14", f"sessions of {calls} calls, one gateway on SQLite", count)
    async with world(folder) as run:
        await _play(run, tally, calls)
    return tally


async def sessions_on_postgres(folder: Path, count: int, database: str, *, calls: int = 20) -> Tally:
    """Each call goes to one of the two, whichever."""
    tally = Tally("D14", f"sessions of {calls} calls over two gateways, PostgreSQL", count)
    async with world(folder, database=database, gateways=2, settings=PATIENT) as run:
        await _play(run, tally, calls)
    return tally


async def _play(run: World, tally: Tally, calls: int) -> None:
    gateways = range(len(run.gateways))

    async def play(at: int) -> None:
        chance = random.Random(at)
        session = f"session-{at}"
        for _ in range(calls):
            heard = await run.call(
                session, tokens=_TOKENS, stream=chance.random() < 0.5, gateway=chance.choice(gateways)
            )
            tally.expect(heard.status == 200 and heard.end == "whole", f"call {heard.number} got {heard.status}")
        run.leave(session)

    await at_once(play, tally.count, most=32)
    for gateway in gateways:
        await run.idle(gateway=gateway)
    tally.add(await run.findings())
    tally.shown = {"calls": len(run.heard)}


async def test_no_token_is_in_another_session(tmp_path: Path) -> None:
    """docs/promises.md D14, of one gateway."""
    tally = await sessions_on_sqlite(tmp_path, 24, calls=5)
    assert tally.clean, tally.complaints()


async def test_no_token_is_in_another_session_whichever_gateway_a_call_comes_to(
    tmp_path: Path, postgres: Postgres
) -> None:
    """docs/promises.md D14, B11."""
    tally = await sessions_on_postgres(tmp_path, 24, postgres.database(), calls=5)
    assert tally.clean, tally.complaints()
