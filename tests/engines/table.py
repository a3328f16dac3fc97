"""The matrix as Markdown, for people: a row a case, a column a way to ask, and a footnote for each reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tests.engines.cells import Capture, Cell

_COLUMNS: Final[tuple[tuple[str, bool, Capture], ...]] = (
    ("whole", False, "exact"),
    ("streamed", True, "exact"),
    ("streamed, `capture: ids`", True, "ids"),
    ("streamed, `capture: stream`", True, "stream"),
)


def markdown(title: str, cells: Sequence[Cell]) -> str:
    return "\n".join(_lines(title, cells))


def _lines(title: str, cells: Sequence[Cell]) -> Iterator[str]:
    notes: dict[str, int] = {}
    yield f"### {title}"
    for endpoint in ("chat", "completions"):
        of_endpoint = [cell for cell in cells if cell.endpoint == endpoint]
        if not of_endpoint:
            continue
        yield ""
        yield f"| {endpoint} | {' | '.join(name for name, _, _ in _COLUMNS)} |"
        yield "|---" * (len(_COLUMNS) + 1) + "|"
        for case in dict.fromkeys(cell.case for cell in of_endpoint):
            found = {(cell.streamed, cell.capture): cell for cell in of_endpoint if cell.case == case}
            words = (_words(found.get((stream, capture)), notes) for _, stream, capture in _COLUMNS)
            yield f"| {case} | {' | '.join(words)} |"
    if notes:
        yield ""
        yield from (f"{number}. {reason}" for reason, number in notes.items())
    yield ""
    yield _summary(cells)


def _words(cell: Cell | None, notes: dict[str, int]) -> str:
    if cell is None:
        return "–"
    if cell.word == "refused":
        return f"refused, {cell.reasons[0].partition(':')[0]}"
    words: str = cell.word
    if cell.word == "honest":
        words = "ids exact, no logprobs" if cell.fidelity == "exact" else str(cell.fidelity)
    if cell.plan == "buffered":
        words += ", buffered"
    if not cell.reasons:
        return words
    return f"{words} ({', '.join(str(notes.setdefault(reason, len(notes) + 1)) for reason in cell.reasons)})"


def _summary(cells: Sequence[Cell]) -> str:
    counted = ", ".join(
        f"{sum(cell.word == word for cell in cells)} {word}" for word in ("exact", "honest", "refused", "WRONG")
    )
    streams = [cell for cell in cells if cell.chunk_by_chunk is not None]
    same = sum(bool(cell.chunk_by_chunk) for cell in streams)
    return f"{len(cells)} cells: {counted}. Of {len(streams)} streamed plans {same} were the same chunk by chunk."
