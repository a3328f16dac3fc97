"""A row: one path, and which of its nodes it trains, so that every node is trained once however many rows hold it."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from adapters.schema import WeightSpan
from adapters.token_ids import TokenIds
from storage.samples.forest import Path
from storage.samples.node import Node
from storage.samples.sample import SampledSpan


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    path: Path
    trained: tuple[Node, ...]
    """Those of the path whose tokens have mask 1 here, in their order. The last is the leaf: no other row holds it."""

    @property
    def leaf(self) -> Node:
        return self.path[-1]

    @property
    def token_ids(self) -> TokenIds:
        return self.leaf.prompt + self.leaf.token_ids

    def mask(self) -> npt.NDArray[np.int8]:
        mask = np.zeros(self.leaf.end, dtype=np.int8)
        for node in self.trained:
            mask[node.start : node.end] = 1
        return mask

    def logprobs(self) -> npt.NDArray[np.float32]:
        logprobs = np.zeros(self.leaf.end, dtype=np.float32)
        for node in self.trained:
            logprobs[node.start : node.end] = node.logprobs
        return logprobs

    def spans(self) -> tuple[SampledSpan, ...]:
        trained = set(self.trained)
        return tuple(replace(node.span, trained=True) if node in trained else node.span for node in self.path)

    def weight_versions(self) -> tuple[WeightSpan, ...]:
        return tuple(span for node in self.path for span in node.weight_versions)

    def trace_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node.trace_id for node in self.path))


def share_out(paths: Iterable[Path], barred: AbstractSet[Node] = frozenset()) -> list[Row]:
    """Each node is trained in the first row that holds it, those that are `barred` in none."""
    taken = set(barred)
    rows: list[Row] = []
    for path in paths:
        trained = tuple(node for node in path if node not in taken)
        taken.update(trained)
        rows.append(Row(path, trained))
    return rows
