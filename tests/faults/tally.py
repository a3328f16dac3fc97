"""What came of a scenario, and the table that is made of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from tests.faults.ledger import Findings


@dataclass(slots=True)
class Tally:
    """One scenario's. `broken` are its other promises that did not hold, each a sentence; `shown` are its figures."""

    row: str
    """Of failures, as docs/promises.md numbers them."""
    name: str
    count: int = 0
    findings: Findings = field(default_factory=Findings)
    broken: list[str] = field(default_factory=list)
    shown: dict[str, object] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        return self.findings.none and not self.broken

    def add(self, findings: Findings) -> None:
        self.findings.lost += findings.lost
        self.findings.dup += findings.dup
        self.findings.wrong += findings.wrong

    def expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.broken.append(otherwise)

    def complaints(self, most: int = 12) -> list[str]:
        """The first sentences of what is not as it should be."""
        kinds = {"lost": self.findings.lost, "dup": self.findings.dup, "wrong": self.findings.wrong, "": self.broken}
        return [f"{kind}: {each}".removeprefix(": ") for kind, all_of in kinds.items() for each in all_of][:most]

    def cells(self) -> tuple[str, ...]:
        shown = "; ".join(f"{name} {value}" for name, value in self.shown.items())
        found = self.findings
        numbers = (self.count, len(found.lost), len(found.dup), len(found.wrong), len(self.broken))
        return (self.row, self.name, *map(str, numbers), f"{self.seconds:.0f}", shown)

    def json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """One that was told as `json`."""
        return cls(**{**told, "findings": Findings(**told["findings"])})


_HEAD = ("no.", "what happens", "count", "lost", "dup", "wrong", "broken", "s", "also seen")


def markdown(tallies: Iterable[Tally]) -> str:
    """A table for the docs."""
    rows = [_HEAD, tuple("---" for _ in _HEAD), *(tally.cells() for tally in tallies)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
