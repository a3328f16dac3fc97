"""D14: thousands of sessions at once, over several gateways. No token is in another's session."""

from __future__ import annotations

import random
from pathlib import Path

from tests.faults.load import at_once
from tests.faults.tally import Tally
from tests.faults.world import World, world

_TOKENS = 3


async def sessions_on_sqlite(folder: Path, count: int, *, calls: int = 20, sessions: int = 20) -> Tally:
    """`count` times so many sessions."""
    tally = Tally("D14", f"sessions of {calls} calls, one gateway on SQLite", count * sessions)
    async with world(folder) as run:
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
    tally = await sessions_on_sqlite(tmp_path, 3, calls=5)
    assert tally.clean, tally.complaints()
