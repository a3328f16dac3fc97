"""One cell of the matrix: a case, streamed or not, under one capture, with its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.engines.cases import Endpoint

Capture = Literal["exact", "ids", "stream"]
Word = Literal["exact", "honest", "refused", "WRONG"]


@dataclass(frozen=True, slots=True)
class Cell:
    """`exact`: ids and logprobs are the engine's own. `honest`: not all of them, and the trace says why.

    `refused`: the engine itself refuses the request, and through the gateway alike.
    """

    endpoint: Endpoint
    case: str
    streamed: bool
    capture: Capture
    word: Word
    plan: str | None = None
    fidelity: str | None = None
    logprobs_fidelity: str | None = None
    reasons: tuple[str, ...] = ()
    """Of an honest or refused cell: why. Of a wrong one: every finding."""
    chunk_by_chunk: bool | None = None
    """Of a streamed plan: whether even the cuts between chunks are as without the gateway."""
