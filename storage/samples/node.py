"""A node of a session's forest: one choice that is known token for token, with the prompt that it was sampled after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from adapters.schema import Choice, Trace, WeightSpan
from adapters.token_ids import TokenIds
from storage.samples.versions import versions_of


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """Compared by identity: two calls that sampled the same ids are two nodes, each with tokens of its own."""

    trace: Trace
    choice: Choice
    prompt: TokenIds
    token_ids: TokenIds
    """The sampled ones: at least one."""
    logprobs: npt.NDArray[np.float32]
    """1:1 with `token_ids`; NaN where none was told."""
    weight_versions: tuple[WeightSpan, ...]
    """Over `token_ids`."""

    @property
    def start(self) -> int:
        """Where its own ids begin in every row that it is part of."""
        return len(self.prompt)

    @property
    def end(self) -> int:
        return len(self.prompt) + len(self.token_ids)

    @property
    def trace_id(self) -> str:
        return self.trace.trace_id

    @property
    def temperature(self) -> float | None:
        """As the backend got it."""
        told = self.trace.sampling.effective.get("temperature")
        return float(told) if isinstance(told, int | float) and not isinstance(told, bool) else None


def node_of(trace: Trace, choice: Choice, prompt: TokenIds, token_ids: TokenIds) -> Node:
    return Node(trace, choice, prompt, token_ids, _logprobs(choice, len(token_ids)), versions_of(trace, choice))


def prompt_of(trace: Trace, choice: Choice) -> TokenIds | None:
    """The choice's own where one call has several prompts; else the trace's."""
    return trace.prompt_token_ids if choice.prompt_token_ids is None else choice.prompt_token_ids


def _logprobs(choice: Choice, length: int) -> npt.NDArray[np.float32]:
    if choice.logprobs is None:
        return np.full(length, np.nan, dtype=np.float32)
    with np.errstate(over="ignore"):  # A float64 beyond float32 becomes infinite, and so untold.
        values = np.array(choice.logprobs, dtype=np.float32)  # Null becomes NaN.
    values[~np.isfinite(values)] = np.nan
    return values
