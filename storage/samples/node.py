"""A node of a session's forest: one choice that is known token for token, with the prompt that it was sampled after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from adapters.schema import Choice, Trace, WeightSpan
from adapters.token_ids import TokenIds
from storage.samples.sample import SampledSpan
from storage.samples.versions import shifted, versions_of


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """Compared by identity: two calls that sampled the same ids are two nodes, each with tokens of its own.

    Its tokens stand at the same place in every row that holds it, so what is said of them is made once.
    """

    trace: Trace
    choice: Choice
    prompt: TokenIds
    token_ids: TokenIds
    """The sampled ones: at least one."""
    logprobs: npt.NDArray[np.float32]
    """1:1 with `token_ids`; NaN where none was told."""
    weight_versions: tuple[WeightSpan, ...]
    """At their place in a row."""
    span: SampledSpan
    """As rows have it that do not train it."""

    @property
    def start(self) -> int:
        """Where its own ids begin in a row."""
        return self.span.start

    @property
    def end(self) -> int:
        return self.span.end

    @property
    def trace_id(self) -> str:
        return self.trace.trace_id


def node_of(trace: Trace, choice: Choice, prompt: TokenIds, token_ids: TokenIds) -> Node:
    start = len(prompt)
    span = SampledSpan(
        trace_id=trace.trace_id,
        index=choice.index,
        start=start,
        end=start + len(token_ids),
        trained=False,
        finish_reason=choice.finish_reason,
        temperature=_temperature(trace),
        logprobs_mode=trace.logprobs_mode,
        routed_experts=choice.routed_experts,
    )
    versions = shifted(versions_of(trace, choice), start)
    return Node(trace, choice, prompt, token_ids, _logprobs(choice, len(token_ids)), versions, span)


def prompt_of(trace: Trace, choice: Choice) -> TokenIds | None:
    """The choice's own where one call has several prompts; else the trace's."""
    return trace.prompt_token_ids if choice.prompt_token_ids is None else choice.prompt_token_ids


def _temperature(trace: Trace) -> float | None:
    """As the backend got it."""
    told = trace.sampling.effective.get("temperature")
    return float(told) if isinstance(told, int | float) and not isinstance(told, bool) else None


def _logprobs(choice: Choice, length: int) -> npt.NDArray[np.float32]:
    if choice.logprobs is None:
        return np.full(length, np.nan, dtype=np.float32)
    with np.errstate(over="ignore"):  # A float64 beyond float32 becomes infinite, and so untold.
        values = np.array(choice.logprobs, dtype=np.float32)  # Null becomes NaN.
    values[~np.isfinite(values)] = np.nan
    return values
