"""What a run is held against. Pure: from what agents got, what backends were and which of them was asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from tests.faults.records import Emission, Row
from tests.operating.life import Life


@dataclass(frozen=True, slots=True)
class Asked:
    """One backend that was asked to serve a call."""

    backend: str
    at: float
    begun: bool
    """A byte of its answer has left it: nobody else may answer that call any more."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an agent, with every backend that it came to. Times are on the monotonic clock."""

    number: int
    session: str
    turn: int
    started: float
    ended: float
    asked: tuple[Asked, ...]
    unanswered: tuple[str, ...] = ()
    """Backends that it was sent to and that gave up its connection without a byte, as its trace says."""
    complaint: str | None = None
    """What its agent got instead of a whole answer."""

    @property
    def served_by(self) -> str | None:
        return self.asked[-1].backend if self.asked else None


@dataclass(frozen=True, slots=True)
class Change:
    """Told to the gateways, and answered by the first of them."""

    kind: Literal["added", "removed", "drained"]
    backend: str
    told: float
    done: float


Lives = Mapping[str, Life]


@dataclass(frozen=True, slots=True)
class Failures:
    """Calls without a whole answer."""

    avoidable: tuple[str, ...]
    """A live backend could have served them."""
    broken: int
    """Their backend had begun to answer, and died or stalled before it was done."""
    hopeless: int
    """No backend was up all the while."""
    deadly: int
    """Sent to two backends, which died under it both: there is no third try, for it may be what kills them."""


def failures(calls: Iterable[Call], lives: Lives) -> Failures:
    avoidable: list[str] = []
    broken = hopeless = deadly = 0
    for call in calls:
        if call.complaint is None:
            continue
        if any(asked.begun and lives[asked.backend].failed(asked.at, call.ended) for asked in call.asked):
            broken += 1
        elif not any(life.was_up(call.started, call.ended) for life in lives.values()):
            hopeless += 1
        elif sum(lives[name].failed(call.started, call.ended) for name in call.unanswered) > 1:
            deadly += 1
        else:
            came_to = ", ".join(f"{a.backend} ({'/'.join(sorted(_was(a, call, lives)))})" for a in call.asked)
            avoidable.append(f"call {call.number} of {call.session}: {call.complaint}; it came to {came_to or 'none'}")
    return Failures(tuple(avoidable), broken, hopeless, deadly)


def _was(asked: Asked, call: Call, lives: Lives) -> frozenset[str]:
    return frozenset(lives[asked.backend].during(asked.at, call.ended))


@dataclass(frozen=True, slots=True)
class Move:
    """Two calls of a session, one after the other, at two backends."""

    before: Call
    after: Call

    def __str__(self) -> str:
        at = f"{self.before.served_by} (call {self.before.number}), then {self.after.served_by}"
        return f"session {self.before.session} was at {at} (call {self.after.number}) though the first lived"


@dataclass(frozen=True, slots=True)
class Stickiness:
    """Of pairs of calls that follow each other in a session whose backend lived from the first's start to the
    second's end."""

    pairs: int
    moves: tuple[Move, ...]

    @property
    def share(self) -> float:
        return 1.0 - len(self.moves) / self.pairs if self.pairs else 1.0


def stickiness(calls: Iterable[Call], lives: Lives) -> Stickiness:
    pairs, moves = 0, []
    for before, after in _pairs(calls):
        if before.served_by is None or after.served_by is None:
            continue
        if not lives[before.served_by].served(before.started, after.ended):
            continue
        pairs += 1
        if after.served_by != before.served_by:
            moves.append(Move(before, after))
    return Stickiness(pairs, tuple(moves))


def _pairs(calls: Iterable[Call]) -> Iterable[tuple[Call, Call]]:
    by_session: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_session[call.session].append(call)
    for of_one in by_session.values():
        yield from pairwise(sorted(of_one, key=lambda call: call.number))


def moved_by(changes: Sequence[Change], moves: Iterable[Move], doubted: Mapping[str, Sequence[float]]) -> list[str]:
    """Sessions that moved, from one call to the next, while another backend than theirs came or went.

    `doubted` is when gateways took which backend for dead, rightly or not: its sessions moved for that.
    """
    unexplained = [
        move
        for move in moves
        if not any(move.before.started <= at <= move.after.ended for at in doubted.get(move.before.served_by or "", ()))
    ]
    return [
        f"{change.backend} was {change.kind}: {move}"
        for move in unexplained
        for change in changes
        if change.backend != move.before.served_by
        and move.before.started <= change.done
        and change.told <= move.after.ended
    ]


def strays(calls: Iterable[Call], changes: Sequence[Change], *, within: float) -> list[str]:
    """Calls that came to a backend that had been removed, and sessions that began at one that was drained, later than
    `within` seconds after that was told."""
    gone = {change.backend: change.done + within for change in changes if change.kind == "removed"}
    closed = {change.backend: change.done + within for change in changes if change.kind == "drained"}
    never = float("inf")
    return [
        f"call {call.number}, turn {call.turn} of {call.session}, came to {asked.backend} after it was {what}"
        for call in calls
        for asked in call.asked
        for what, heeded in (
            ("removed", call.started > gone.get(asked.backend, never)),
            ("drained", call.turn == 0 and call.started > closed.get(asked.backend, never)),
        )
        if heeded
    ]


@dataclass(frozen=True, slots=True)
class Sample:
    """Calls in flight at each backend that is up and serves, at one moment of quiet."""

    at: float
    in_flight: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Crowding:
    """The busiest backend of any window: its mean of calls in flight, over the mean of all backends there."""

    windows: int
    ratio: float
    where: str


def crowding(samples: Iterable[Sample], lives: Lives, *, window: float) -> Crowding:
    """Samples are cut into windows of so many seconds. In each count the backends that were up all through it."""
    by_window: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_window[int(sample.at // window)].append(sample)
    full = max(map(len, by_window.values()), default=0)
    windows, worst, where = 0, 0.0, ""
    for at, of_one in by_window.items():
        if len(of_one) < 0.8 * full:
            continue
        up = [name for name, life in lives.items() if life.was_up(at * window, (at + 1) * window)]
        means = {name: sum(sample.in_flight.get(name, 0) for sample in of_one) / len(of_one) for name in up}
        mean = sum(means.values()) / len(means) if means else 0.0
        if not mean:
            continue
        windows += 1
        busiest = max(means, key=lambda name: means[name])
        if means[busiest] / mean > worst:
            worst, where = means[busiest] / mean, f"{busiest}: {means[busiest]:.1f} of {mean:.1f}"
    return Crowding(windows, worst, where)


@dataclass(frozen=True, slots=True)
class Labels:
    """Finished traces and the weight version that each says sampled it."""

    traces: int
    versions: int
    """How many different ones the backends had."""
    wrong: tuple[str, ...]


def labels(rows: Iterable[Row], emissions: Iterable[Emission]) -> Labels:
    """A call that was asked at two backends was sampled by the last."""
    sampled = {emission.number: emission.weight_versions[0][0] for emission in emissions}
    finished = [row for row in rows if row.status == "ok"]
    wrong = [
        f"trace {row.trace_id} of call {row.number} says {row.weight_version}, and {sampled.get(row.number)} sampled it"
        for row in finished
        if row.weight_version != sampled.get(row.number)
    ]
    return Labels(len(finished), len(set(sampled.values())), tuple(wrong))
