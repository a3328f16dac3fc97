"""The table of shapes: what a sample looks like to each trainer. The only place that lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from adapters.schema import Session, Trace
from storage.formats import flat, packed
from storage.formats.row import Row
from storage.formats.trainers import areal, atif, nemo_rl, prime_rl, skyrl, slime, tinker, trl, verl
from storage.samples.sample import Sample


class Shape(Protocol):
    """Rows of a trainer's own names, each of plain values and numpy arrays: `writers` has their bytes."""

    @property
    def name(self) -> str: ...

    def rows(
        self, samples: Sequence[Sample], session: Session | None = None, traces: Sequence[Trace] = ()
    ) -> list[Row]:
        """The rows of one session's samples; of any where the shape is made of the samples alone.

        Raises CannotShape for a sample that the trainer's record has no true place for.
        """
        ...


@dataclass(frozen=True, slots=True)
class RowShape:
    """A row for each sample, of the sample alone."""

    name: str
    row: Callable[[Sample], Row]

    def rows(
        self, samples: Sequence[Sample], session: Session | None = None, traces: Sequence[Trace] = ()
    ) -> list[Row]:
        return [self.row(sample) for sample in samples]


@dataclass(frozen=True, slots=True)
class SessionShape:
    """One document for a session, of what it and its traces say too."""

    name: str
    document: Callable[[Session, Sequence[Trace], Sequence[Sample]], Row]

    def rows(
        self, samples: Sequence[Sample], session: Session | None = None, traces: Sequence[Trace] = ()
    ) -> list[Row]:
        if session is None:
            raise ValueError(f"{self.name} is made of a session and its traces too")
        return [self.document(session, traces, samples)] if samples else []


_ALL: Final[tuple[Shape, ...]] = (
    RowShape("flat", flat.row),
    RowShape("packed", packed.row),
    RowShape("verl", verl.row),
    RowShape("slime", slime.row),
    RowShape("prime-rl", prime_rl.row),
    RowShape("trl", trl.row),
    SessionShape("atif", atif.trajectory),
    RowShape("skyrl", skyrl.row),
    RowShape("tinker", tinker.row),
    RowShape("areal", areal.row),
    RowShape("nemo-rl", nemo_rl.row),
)
SHAPES: Final[Mapping[str, Shape]] = {shape.name: shape for shape in _ALL}
