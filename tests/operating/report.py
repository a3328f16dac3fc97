"""The bounds of a run, one a line: what was promised, what was seen, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.operating.outcome import Outcome

MOST_MOVES: Final = 0.01


@dataclass(frozen=True, slots=True)
class Bound:
    """One promise. `complaints` are what broke it, each a sentence; none where it holds."""

    promise: str
    seen: str
    complaints: Sequence[str] = ()
    holds: bool = True


def bounds(outcome: Outcome) -> list[Bound]:
    found, failed, stuck, crowd = outcome.findings, outcome.failures, outcome.stickiness, outcome.crowding
    labels = outcome.labels
    moved = [str(move) for move in stuck.moves]
    return [
        _none("no call is lost or doubled, none is recorded wrong", [*found.lost, *found.dup, *found.wrong]),
        Bound(
            "each trace has the weight version that sampled it",
            f"{len(labels.wrong)} of {labels.traces} have another; {labels.versions} versions",
            labels.wrong,
            holds=labels.traces > 0 and not labels.wrong,
        ),
        _none("no call fails that a live backend could have served", failed.avoidable),
        Bound("answers that broke off as their backend did", f"{failed.broken}"),
        Bound("calls that were sent to two backends, and both died under them", f"{failed.deadly}"),
        Bound("calls while no backend was up", f"{failed.hopeless}"),
        Bound(
            "a session stays at its backend while that lives: at least 99 %",
            f"{stuck.share:.2%} of {stuck.pairs} pairs of calls",
            moved,
            holds=stuck.pairs > 0 and len(moved) <= MOST_MOVES * stuck.pairs,
        ),
        _none("whoever comes or goes moves no session of another backend", outcome.moved),
        _none("nothing comes to a removed backend, no new session to a drained one", outcome.strays),
        Bound(
            "no backend has more than twice the mean of calls in flight",
            f"{crowd.ratio:.2f} times at most ({crowd.where}; {crowd.windows} windows)",
            holds=0.0 < crowd.ratio <= outcome.plan.most_crowded,
        ),
        _none("what is asked of the administration is done", outcome.broken),
    ]


def _none(promise: str, complaints: Sequence[str]) -> Bound:
    return Bound(promise, f"{len(complaints)}", complaints, holds=not complaints)


def table(outcomes: Iterable[tuple[str, Outcome]]) -> str:
    """For the docs, and for whoever runs it."""
    rows = [("what is promised", "seen", "")]
    for name, outcome in outcomes:
        rows.append((f"**{name}**", outcome.headline(), ""))
        rows += [(bound.promise, bound.seen, "holds" if bound.holds else "**broken**") for bound in bounds(outcome)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], ("---", "---", "---"), *rows[1:]])
