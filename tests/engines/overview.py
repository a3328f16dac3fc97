"""All set-ups side by side, as docs/engines.md shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.engines.cells import Capture, Cell

Results = Mapping[str, Sequence[Cell]]
"""Cells by the name of their set-up."""

_ENDPOINTS: Final = ("chat", "completions")
_CAPTURES: Final[tuple[Capture, ...]] = ("exact", "ids", "stream")


def overview(results: Results) -> str:
    """Two tables of «whole / streamed» with `capture: exact`, and one that counts every way to ask."""
    return "\n".join(line for endpoint in _ENDPOINTS for line in _side_by_side(results, endpoint)) + "\n".join(
        ["", *_counts(results)]
    )


def _side_by_side(results: Results, endpoint: str) -> Iterator[str]:
    cells = {
        (name, cell.case, cell.streamed): cell
        for name, of_setup in results.items()
        for cell in of_setup
        if cell.endpoint == endpoint and cell.capture == "exact"
    }
    yield from _row(endpoint, results)
    yield "|---" * (len(results) + 1) + "|"
    for case in dict.fromkeys(case for _, case, _ in cells):
        ways = ([cells.get((name, case, streamed)) for streamed in (False, True)] for name in results)
        yield from _row(case, (_both(*both) for both in ways))
    yield ""


def _both(whole: Cell | None, streamed: Cell | None) -> str:
    one, other = (_word(cell) for cell in (whole, streamed))
    return one if one == other else f"{one} / {other}"


def _word(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    if cell.word == "honest":
        return "ids, no logprobs" if cell.fidelity == "exact" else str(cell.fidelity)
    return f"{cell.word}, buffered" if cell.plan == "buffered" else cell.word


def _counts(results: Results) -> Iterator[str]:
    yield "| cells | whole | " + " | ".join(f"streamed, `{capture}`" for capture in _CAPTURES) + " | cut alike |"
    yield "|---" * (len(_CAPTURES) + 3) + "|"
    for name, cells in results.items():
        ways = [[cell for cell in cells if not cell.streamed]]
        ways += [[cell for cell in cells if cell.streamed and cell.capture == capture] for capture in _CAPTURES]
        relayed = [bool(cell.chunk_by_chunk) for cell in cells if cell.chunk_by_chunk is not None]
        yield from _row(name, [*map(_counted, ways), f"{sum(relayed)} of {len(relayed)}"])


def _counted(cells: Sequence[Cell]) -> str:
    counted = Counter(_word(cell) for cell in cells)
    return ", ".join(f"{number} {word}" for word, number in counted.most_common())


def _row(head: str, cells: Iterator[str] | Sequence[str] | Results) -> Iterator[str]:
    yield f"| {head} | {' | '.join(cells)} |"
