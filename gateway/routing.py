"""Which backend a session's calls go to: of its two best by rendezvous hashing the less loaded, then always that one.

Pure. Adding or removing a backend moves only the sessions that it gains or loses.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

# As many as leave the largest below 1.0 when it is a float.
_BITS: Final = 52


class Standing(IntEnum):
    """In the order in which backends are asked."""

    WELL = 0
    SLOW = 1
    DOWN = 2
    """It refused or failed lately. It is asked last, and still asked when there is nobody else."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A backend as routing sees it."""

    name: str
    load: int = 0
    """Calls in flight, and sessions that are about to call again."""
    weight: float = 1.0
    standing: Standing = Standing.WELL

    @property
    def crowd(self) -> float:
        """Its load with one more call, by its weight."""
        return (self.load + 1) / self.weight


def order(session_id: str, candidates: Iterable[Candidate], pinned: str | None = None) -> list[Candidate]:
    """All candidates, the one to ask first in front. A pinned backend is first unless it is down.

    Behind it each is the less loaded of the two best that are left, so that the sessions of one that died spread.
    """
    ranked = sorted(candidates, key=lambda candidate: score(session_id, candidate), reverse=True)
    ordered = [each for standing in Standing for each in _by_twos([c for c in ranked if c.standing is standing])]
    return _with_first(ordered, pinned)


def spread(call_id: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    """The same for a call that is nobody's next one: by load alone."""
    ranked = sorted(candidates, key=lambda candidate: score(call_id, candidate), reverse=True)
    return sorted(ranked, key=lambda candidate: (candidate.standing, candidate.crowd))


def score(session_id: str, candidate: Candidate) -> float:
    """Weighted rendezvous: the highest of all is each candidate's with a probability in proportion to its weight.

    Schindelhauer and Schomaker, «Weighted distributed hash tables», 2005: the logarithmic method.
    """
    digest = hashlib.blake2b(f"{session_id}\0{candidate.name}".encode(), digest_size=8).digest()
    drawn = int.from_bytes(digest) >> (64 - _BITS)
    return -candidate.weight / math.log((drawn + 0.5) / (1 << _BITS))


def _by_twos(ranked: Sequence[Candidate]) -> list[Candidate]:
    ordered: list[Candidate] = []
    held: Candidate | None = None
    for candidate in ranked:
        if held is not None and candidate.crowd < held.crowd:
            ordered.append(candidate)
        else:
            if held is not None:
                ordered.append(held)
            held = candidate
    return ordered if held is None else [*ordered, held]


def _with_first(ordered: list[Candidate], pinned: str | None) -> list[Candidate]:
    best = next((candidate for candidate in ordered if candidate.name == pinned), None)
    if best is None:
        return ordered
    others = [candidate for candidate in ordered if candidate is not best]
    place = 0 if best.standing is not Standing.DOWN else sum(c.standing is not Standing.DOWN for c in others)
    return [*others[:place], best, *others[place:]]
