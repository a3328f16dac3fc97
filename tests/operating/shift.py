"""One run from its start to its judgement."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from tests.faults.ledger import Ledger
from tests.faults.records import Heard, Row
from tests.faults.world import World
from tests.operating.fleet import Fleet, Refused, fleet
from tests.operating.judgement import Asked, Call, crowding, failures, labels, moved_by, stickiness, strays
from tests.operating.one_of_two import OneOfTwo
from tests.operating.operator import Operator, Work
from tests.operating.outcome import Outcome, Plan
from tests.operating.rollouts import Rollouts
from tests.operating.speaking import said
from tests.operating.trainer import Trainer
from tests.operating.watch import Watch

# Another gateway than the one that was told heeds it within this.
_AGREE_WITHIN_S = 3.0
_ENDS_WITHIN_S = 30.0


def night_shift(made: Fleet, trainer: Trainer, plan: Plan) -> Work:
    return Operator(made, trainer, plan.period, random.Random(7))


def one_of_two(made: Fleet, trainer: Trainer, plan: Plan) -> Work:
    return OneOfTwo(made, plan.period)


async def operate(folder: Path, plan: Plan, work: Callable[[Fleet, Trainer, Plan], Work] = night_shift) -> Outcome:
    started = time.monotonic()
    async with fleet(folder, plan.backends, gateways=plan.gateways, database=plan.database) as made:
        trainer = Trainer(made)
        watch = Watch(made, trainer)
        operator = work(made, trainer, plan)
        rollouts = Rollouts([gateway.port for gateway in made.gateways], made.orders, plan.pace)
        try:
            await made.weigh()
        except Refused as exc:
            operator.broken.append(str(exc))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(rollouts.play(plan.agents))
            watching = tasks.create_task(watch.run())
            for number in range(plan.cycles):
                await operator.cycle(number)
            watching.cancel()
            rollouts.stopping = True
        rows = await _rows(folder, made)
    lives = made.lives
    calls = _calls(rollouts, made, rows)
    stuck = stickiness(calls, lives)
    return Outcome(
        plan=plan,
        seconds=time.monotonic() - started,
        calls=len(calls),
        sessions=len({call.session for call in calls}),
        labels=labels(rows, made.emissions),
        findings=Ledger(made.emissions, rollouts.heard, rows, said).findings(),
        failures=failures(calls, lives),
        stickiness=stuck,
        moved=moved_by(made.changes, stuck.moves, watch.doubted),
        strays=strays(calls, made.changes, within=_AGREE_WITHIN_S if plan.gateways > 1 else 0.0),
        crowding=crowding(watch.samples, lives, window=plan.window),
        broken=[*operator.broken, *trainer.broken],
        done=dict(operator.done),
        longest_pause=trainer.longest,
    )


async def _rows(folder: Path, made: Fleet) -> list[Row]:
    """All traces, once no call runs any more."""
    told = World(folder, [], made.gateways)
    for gateway in range(len(made.gateways)):
        await told.idle(gateway=gateway, seconds=_ENDS_WITHIN_S)
    await told.settled(seconds=_ENDS_WITHIN_S)
    return await told.rows()


def _calls(rollouts: Rollouts, made: Fleet, rows: Iterable[Row]) -> list[Call]:
    unanswered = {
        row.number: tuple(tried.backend for tried in row.attempts if (tried.error or "").startswith("no_answer"))
        for row in rows
    }
    asked: dict[int, list[Asked]] = {}
    for emission in made.emissions:
        begun = emission.number in made.sites[emission.backend].begun
        asked.setdefault(emission.number, []).append(Asked(emission.backend, emission.arrived, begun))
    return [
        Call(
            number=heard.number,
            session=heard.session,
            turn=rollouts.turns_of[heard.number],
            started=heard.started,
            ended=heard.ended or heard.started,
            asked=tuple(asked.get(heard.number, ())),
            unanswered=unanswered.get(heard.number, ()),
            complaint=_complaint(heard),
        )
        for heard in rollouts.heard
    ]


def _complaint(heard: Heard) -> str | None:
    try:
        told = said(heard)
    except msgspec.DecodeError as exc:
        return f"status {heard.status}, not understood: {exc}"
    if told.finished and told.done and told.error is None:
        return None
    return f"status {heard.status}, {heard.end}: {(told.error or told.text)[:300]}"
