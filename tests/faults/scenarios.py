"""The table of scenarios: the only place that lists them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults import test_kills
from tests.faults.tally import Tally


@dataclass(frozen=True, slots=True)
class Scenario:
    """One fault, done so many times."""

    row: str
    name: str
    play: Callable[[Path, int], Awaitable[Tally]]

    def matches(self, wanted: Iterable[str]) -> bool:
        return any(each == self.row.lower() or each in self.name for each in wanted)


SCENARIOS: Final = (Scenario("D9", "kills-sqlite", test_kills.kills_on_sqlite),)
