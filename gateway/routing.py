"""Which backend a session's calls go to: of its two best by rendezvous hashing the less loaded, then always that one.

Pure. Adding or removing a backend moves only the sessions that it gains or loses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A backend as routing sees it."""

    name: str
    in_flight: int = 0
    down: bool = False
    """It refused or failed lately. It is asked last, and still asked when there is nobody else."""


def order(session_id: str, candidates: Iterable[Candidate], pinned: str | None = None) -> list[Candidate]:
    """All candidates, the one to ask first in front. A pinned backend is first for as long as it is up."""
    ranked = sorted(candidates, key=lambda candidate: _score(session_id, candidate.name), reverse=True)
    up = [candidate for candidate in ranked if not candidate.down]
    down = [candidate for candidate in ranked if candidate.down]
    return [*_first(up, pinned), *_first(down, pinned)]


def _first(ranked: Sequence[Candidate], pinned: str | None) -> list[Candidate]:
    """The same candidates, with the one to prefer in front."""
    if not ranked:
        return []
    best = next((candidate for candidate in ranked if candidate.name == pinned), None)
    if best is None:
        best = min(ranked[:2], key=lambda candidate: candidate.in_flight)
    return [best, *(candidate for candidate in ranked if candidate is not best)]


def _score(session_id: str, name: str) -> bytes:
    return hashlib.blake2b(f"{session_id}\0{name}".encode(), digest_size=8).digest()
