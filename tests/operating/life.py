"""What a backend was at each moment: what may be asked of a gateway depends on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

State = Literal["up", "draining", "dead", "hung", "removed"]

_SERVING: Final = frozenset({"up", "draining"})

_FAILING: Final = frozenset({"dead", "hung"})


@dataclass(slots=True)
class Life:
    """Times are on the monotonic clock, and rise."""

    turns: list[tuple[float, State]] = field(default_factory=list)

    def becomes(self, state: State, at: float) -> None:
        if self.turns and at < self.turns[-1][0]:
            raise ValueError("a life is written in its order")
        self.turns.append((at, state))

    @property
    def now(self) -> State | None:
        return self.turns[-1][1] if self.turns else None

    def during(self, start: float, end: float) -> frozenset[State]:
        """All that it was between the two; nothing before it was born."""
        ends = [*(at for at, _ in self.turns[1:]), float("inf")]
        return frozenset(
            state for (at, state), until in zip(self.turns, ends, strict=True) if at <= end and until > start
        )

    def failed(self, start: float, end: float) -> bool:
        """It died or said nothing for a while."""
        return not self.during(start, end).isdisjoint(_FAILING)

    def served(self, start: float, end: float) -> bool:
        """It lived and answered all the time, also as one that drains."""
        return bool(self.turns) and self.turns[0][0] <= start and self.during(start, end) <= _SERVING

    def was_up(self, start: float, end: float) -> bool:
        """It took whoever came, all the time."""
        return bool(self.turns) and self.turns[0][0] <= start and self.during(start, end) == {"up"}
