"""Agents: each plays one session after the other, of some turns, with time to think between them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import msgspec

from gateway.scripted import Fault
from tests.faults.agent import Wire, reads_on, stays
from tests.faults.backend import Order
from tests.faults.records import Heard
from tests.operating.speaking import DIALECTS, Turn, said

# Far more than any answer takes here, with a pause and a stalled backend before it.
PATIENCE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds, and how many. Of a range each value is as likely as another."""

    shortest: float = 0.1
    longest: float = 3.0
    thinking: float = 2.5
    """At most, between two calls."""
    turns: tuple[int, int] = (4, 12)
    """Calls of a session."""
    tokens: tuple[int, int] = (4, 12)

    def answer(self, chance: random.Random) -> Order:
        """Nearly a third of an answer's time is before its first byte."""
        seconds = chance.uniform(self.shortest, self.longest)
        tokens = chance.randint(*self.tokens)
        return Order(Fault(delay=0.3 * seconds, pause=0.7 * seconds / tokens), tokens)


PACE: Final = Pace()


@dataclass(slots=True)
class Rollouts:
    """All agents of a run. They go round the gateways, whichever each call comes to."""

    ports: Sequence[int]
    orders: dict[int, Order]
    """What becomes of a call, for its backend to find."""
    pace: Pace
    heard: list[Heard] = field(default_factory=list)
    turns_of: dict[int, int] = field(default_factory=dict)
    """Which call of its session each is."""
    stopping: bool = False
    _numbers: count[int] = field(default_factory=lambda: count(1))

    async def play(self, agents: int) -> None:
        """Until `stopping` is set; sessions that are under way then end with their call."""
        async with asyncio.TaskGroup() as tasks:
            for agent in range(agents):
                tasks.create_task(self._agent(agent))

    async def _agent(self, agent: int) -> None:
        chance = random.Random(agent)
        wires = [Wire(port) for port in self.ports]
        # They don't all begin in one moment.
        await asyncio.sleep(chance.uniform(0.0, self.pace.thinking))
        try:
            for rollout in count():
                if self.stopping:
                    return
                await self._session(f"a{agent}-{rollout}", wires, chance)
        finally:
            for wire in wires:
                wire.close()

    async def _session(self, session: str, wires: Sequence[Wire], chance: random.Random) -> None:
        dialect = DIALECTS[chance.choice([*DIALECTS])]
        turns: list[Turn] = []
        for turn in range(chance.randint(*self.pace.turns)):
            if self.stopping:
                return
            number, stream = next(self._numbers), chance.random() < 0.6
            self.orders[number], self.turns_of[number] = self.pace.answer(chance), turn
            heard = Heard(
                *(number, session, turns[-1].number if turns else None),
                body=bytearray(),
                stream=stream,
                dialect=dialect.name,
            )
            body = dialect.body(turns, number, stream=stream)
            path = f"/sessions/{session}{dialect.path}"
            headers = {"x-request-id": str(number)}
            await chance.choice(wires).call(heard, path, body, headers, stays, reads_on, PATIENCE_S)
            self.heard.append(heard)
            self.orders.pop(number, None)
            with suppress(msgspec.DecodeError):
                told = said(heard)
                if told.finished and told.error is None:
                    turns.append(Turn(number, told.text))
            await asyncio.sleep(chance.uniform(0.0, self.pace.thinking))
