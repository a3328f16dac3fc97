"""A row: one path, and which of its nodes it trains, so that every node is trained once however many rows hold it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from adapters.schema import WeightSpan
from adapters.token_ids import TokenIds
from storage.samples.forest import Path
from storage.samples.node import Node
from storage.samples.sample import SampledSpan
from storage.samples.versions import shifted


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    path: Path
    trained: frozenset[Node]
    """Those of the path whose tokens have mask 1 here. The leaf is one, for no other row holds it."""

    @property
    def leaf(self) -> Node:
        return self.path[-1]

    @property
    def own(self) -> Sequence[Node]:
        """The trained ones, in their order."""
        return [node for node in self.path if node in self.trained]

    @property
    def token_ids(self) -> TokenIds:
        return self.leaf.prompt + self.leaf.token_ids

    def mask(self) -> npt.NDArray[np.int8]:
        mask = np.zeros(self.leaf.end, dtype=np.int8)
        for node in self.own:
            mask[node.start : node.end] = 1
        return mask

    def logprobs(self) -> npt.NDArray[np.float32]:
        logprobs = np.zeros(self.leaf.end, dtype=np.float32)
        for node in self.own:
            logprobs[node.start : node.end] = node.logprobs
        return logprobs

    def weight_versions(self) -> tuple[WeightSpan, ...]:
        return tuple(span for node in self.path for span in shifted(node.weight_versions, node.start))

    def spans(self) -> tuple[SampledSpan, ...]:
        return tuple(
            SampledSpan(
                trace_id=node.trace_id,
                index=node.choice.index,
                start=node.start,
                end=node.end,
                trained=node in self.trained,
                finish_reason=node.choice.finish_reason,
                temperature=node.temperature,
                logprobs_mode=node.trace.logprobs_mode,
                routed_experts=node.choice.routed_experts,
            )
            for node in self.path
        )


def share_out(paths: Iterable[Path], barred: AbstractSet[Node] = frozenset()) -> list[Row]:
    """Each node is trained in the first row that holds it, those that are `barred` in none."""
    taken = set(barred)
    rows: list[Row] = []
    for path in paths:
        trained = frozenset(path) - taken
        taken |= trained
        rows.append(Row(path, trained))
    return rows
