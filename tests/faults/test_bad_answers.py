"""D12 and D18: malformed streams and lying backends, among sound calls of the same sessions that must not notice."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from adapters.scripts.script import Frame
from gateway.scripted import Fault
from tests.faults.backend import Order, Twist
from tests.faults.load import at_once
from tests.faults.said import said
from tests.faults.tally import Tally
from tests.faults.world import World, world
from tests.gateway.test_lies import ABOUT_IDS, ABOUT_LOGPROBS
from tests.gateway.test_malformed_streams import BROKEN, SOUND
from tests.gateway.twisted import Lie, lied

_TEN_MEGABYTES: Final = 8
"""Every so manyeth round has the forms of that size."""
_NO_UMBRELLA: Final = frozenset({"an end inside a character", "an end inside an event"})


async def malformed_streams(folder: Path, count: int) -> Tally:
    """Each form that is known, in turn, in pieces of a random size; then one that is cut at a random byte."""
    tally = Tally("D12", "malformed streams among sound ones", count)
    odd = {name: Order(twist=_garbled(garble)) for name, garble in SOUND.items()}
    broken = {
        name: Order(twist=_garbled(garble), sound=False)
        for name, (garble, *_) in BROKEN.items()
        if name not in _NO_UMBRELLA
    }
    async with world(folder) as run:

        async def play(at: int) -> None:
            chance = random.Random(at)
            names = [*odd, *broken, *(("a cut",) * 8)]
            name = names[at % len(names)]
            if "megabytes" in name and at // len(names) % _TEN_MEGABYTES:
                return
            cut = chance.uniform(0.1, 0.95)
            order = (
                odd.get(name) or broken.get(name) or Order(twist=_garbled(lambda body: body[: int(len(body) * cut)]))
            )
            piece = None if "megabytes" in name else chance.choice((None, 1, 7, 61))
            order = Order(Fault(piece=piece), twist=order.twist, sound=order.sound and name != "a cut")
            await _amid(run, tally, f"session-{at}", order, chance)
            tally.count = len(run.heard) // 3

        tally.count = 0
        await at_once(play, count, most=4)
        await run.idle()
        tally.add(await run.findings())
        tally.shown = {"forms": len(odd) + len(broken) + 1}
    return tally


async def backends_that_lie(folder: Path, count: int) -> Tally:
    tally = Tally("D18", "a backend that lies, in good JSON", count)
    lies = {name: lie for name, (lie, *_) in [*ABOUT_IDS.items(), *ABOUT_LOGPROBS.items()]}
    names = [*lies]
    async with world(folder) as run:

        async def play(at: int) -> None:
            order = Order(twist=_lying(lies[names[at % len(names)]]), sound=False)
            await _amid(run, tally, f"session-{at}", order, random.Random(at))

        await at_once(play, count, most=4)
        await run.idle()
        tally.add(await run.findings())
        tally.shown = {"lies": len(lies)}
    return tally


async def _amid(run: World, tally: Tally, session: str, order: Order, chance: random.Random) -> None:
    """A sound call, the bad one, and a sound one. The agent of the bad one has an answer or an error."""
    await run.call(session)
    stream = order.fault.piece is not None or chance.random() < 0.7
    bad = await run.call(session, order=order, stream=stream)
    told = said(bad)
    tally.expect(bad.end == "whole", f"call {bad.number} broke off")
    tally.expect(told.done or told.error is not None, f"call {bad.number} has neither an end nor an error")
    good = await run.call(session)
    tally.expect(good.status == 200 and good.end == "whole", f"call {good.number} is sound, and got {good.status}")


def _garbled(garble: Callable[[bytes], bytes]) -> Twist:
    """Whole answers go out as they are."""

    def twist(frames: Sequence[Frame]) -> Sequence[Frame]:
        told = tuple(pair for frame in frames for pair in frame.told)
        body = b"".join(frame.data for frame in frames)
        return [Frame(garble(body) if body.startswith(b"data: ") else body, told)]

    return twist


def _lying(lie: Lie) -> Twist:
    return lambda frames: [Frame(lied(frame.data, lie), frame.told) for frame in frames]


async def test_malformed_streams_cost_their_neighbours_nothing_and_are_never_silently_exact(tmp_path: Path) -> None:
    """docs/promises.md D12."""
    tally = await malformed_streams(tmp_path, 40)
    assert tally.clean, tally.complaints()


async def test_lies_cost_their_neighbours_nothing_and_are_never_silently_exact(tmp_path: Path) -> None:
    """docs/promises.md D18."""
    tally = await backends_that_lie(tmp_path, 30)
    assert tally.clean, tally.complaints()
