"""Numbers that go up: counters and histograms by their labels, for one thread.

All calls of a gateway run on one event loop, so nothing is locked here: to count costs a tenth of a microsecond, where
a library's own counters, safe for threads, take ten times that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, TypeAlias

from gateway.sight.names import Name

Labels: TypeAlias = tuple[str, ...]
Sample: TypeAlias = tuple[str, Labels, float]
"""The name's ending, values of the labels (a bucket's bound behind them), and the number."""

OTHER: Final = "other"
_MOST_SERIES: Final = 1_000


class Counter:
    """`add` is for the hot path. Beyond a thousand sets of labels all are `other`."""

    __slots__ = ("_by_labels", "name")

    def __init__(self, name: Name) -> None:
        self.name = name
        self._by_labels: dict[Labels, float] = {} if name.labels else {(): 0.0}

    def add(self, labels: Labels = (), amount: float = 1.0) -> None:
        try:
            self._by_labels[labels] += amount
        except KeyError:
            labels = _bounded(labels, len(self._by_labels))
            self._by_labels[labels] = self._by_labels.get(labels, 0.0) + amount

    def samples(self) -> Iterator[Sample]:
        for labels, value in self._by_labels.items():
            yield "", labels, value


class Histogram:
    """As `Counter`; what is observed falls into the first bucket whose bound it does not exceed."""

    __slots__ = ("_bounds", "_by_labels", "name")

    def __init__(self, name: Name) -> None:
        self.name = name
        self._bounds = name.bounds
        self._by_labels: dict[Labels, list[float]] = {} if name.labels else {(): self._empty()}

    def observe(self, value: float, labels: Labels = ()) -> None:
        counts = self._by_labels.get(labels)
        if counts is None:
            counts = self._by_labels.setdefault(_bounded(labels, len(self._by_labels)), self._empty())
        counts[bisect_left(self._bounds, value)] += 1
        counts[-1] += value

    def quantile(self, share: float, labels: Labels = ()) -> float | None:
        """The bound that so large a share does not exceed; the last one where it is beyond all. Null of nothing."""
        counts = self._by_labels.get(labels)
        if counts is None or not (wanted := sum(counts[:-1]) * share):
            return None
        below = 0.0
        for bound, count in zip(self._bounds, counts, strict=False):
            below += count
            if below >= wanted:
                return bound
        return self._bounds[-1]

    def count(self, labels: Labels = ()) -> int:
        return int(sum(self._by_labels.get(labels, [0.0])[:-1]))

    def samples(self) -> Iterator[Sample]:
        for labels, counts in self._by_labels.items():
            below = 0.0
            for bound, count in zip((*self._bounds, float("inf")), counts[:-1], strict=True):
                below += count
                yield "_bucket", (*labels, "+Inf" if bound == float("inf") else str(bound)), below
            yield "_sum", labels, counts[-1]
            yield "_count", labels, below

    def _empty(self) -> list[float]:
        """A count for each bound, one for what is beyond all, and the sum."""
        return [0.0] * (len(self._bounds) + 2)


def _bounded(labels: Labels, known: int) -> Labels:
    return labels if known < _MOST_SERIES else (OTHER,) * len(labels)
