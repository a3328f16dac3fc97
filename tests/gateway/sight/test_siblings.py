"""Workers that share a port: whoever is scraped tells what all of them counted, and who did not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import Metric

from gateway.sight.exposition import metric_of, text
from gateway.sight.names import Name
from gateway.sight.siblings import Own, Siblings, told_by_all
from gateway.sight.tally import Counter
from tests.gateway.sight.scraping import numbers_of

CALLS = Name("calls_total", "counter", "Calls.", ("dialect",))


def own(calls: int) -> Own:
    counter = Counter(CALLS)
    counter.add(("chat",), calls)

    async def told() -> Sequence[Metric]:
        return [metric_of(counter)]

    return told


async def test_whoever_is_scraped_tells_of_all(tmp_path: Path) -> None:
    first, second = (Siblings(tmp_path, number, 2) for number in (1, 2))
    async with told_by_all(own(3), first) as of_first, told_by_all(own(4), second) as of_second:
        assert text(await of_first()) == text(await of_second())
        told = numbers_of(text(await of_first()).decode())
    assert told == {
        'calls_total{dialect="chat",worker="1"}': 3,
        'calls_total{dialect="chat",worker="2"}': 4,
        'worker_up{worker="1"}': 1,
        'worker_up{worker="2"}': 1,
    }


async def test_one_that_is_dead_or_silent_is_told_as_such_and_the_others_are_told(tmp_path: Path) -> None:
    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)
        writer.close()

    hanging = await asyncio.start_unix_server(silent, tmp_path / "3.sock")
    async with hanging, told_by_all(own(3), Siblings(tmp_path, 1, 3)) as all_of_them:
        told = numbers_of(text(await all_of_them()).decode())
    assert told == {
        'calls_total{dialect="chat",worker="1"}': 3,
        'worker_up{worker="1"}': 1,
        'worker_up{worker="2"}': 0,
        'worker_up{worker="3"}': 0,
    }


async def test_one_that_was_killed_and_begins_again_takes_its_place(tmp_path: Path) -> None:
    (tmp_path / "1.sock").touch()  # What a killed process leaves.
    second = Siblings(tmp_path, 2, 2)
    async with told_by_all(own(1), Siblings(tmp_path, 1, 2)), told_by_all(own(2), second) as all_of_them:
        assert 'calls_total{dialect="chat",worker="1"}' in numbers_of(text(await all_of_them()).decode())


async def test_one_process_alone_has_no_label_for_it() -> None:
    async with told_by_all(own(3), None) as told:
        assert numbers_of(text(await told()).decode()) == {'calls_total{dialect="chat"}': 3}
