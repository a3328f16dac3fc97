"""Any session that an agent may make: it goes on, branches, compacts, asks again, in turns with its sub-agents.

The ids are few, so that ends, prompts and whole calls are often equal by chance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from adapters.schema import Choice, Trace, WeightSpan
from adapters.token_ids import TokenIds
from tests.storage.samples.examples import turn

ids = st.lists(st.integers(0, 2), max_size=3)
sampled = st.lists(st.integers(0, 2), min_size=1, max_size=3)


@dataclass
class History:
    """What was asked and answered so far."""

    traces: list[Trace] = field(default_factory=list)
    texts: list[list[int]] = field(default_factory=list)
    """Every prompt and every end."""

    def add(self, trace: Trace) -> None:
        self.traces.append(trace)
        for choice in trace.choices:
            prompt = choice.prompt_token_ids or trace.prompt_token_ids or TokenIds()
            self.texts += [prompt.tolist(), [*prompt, *(choice.token_ids or ())]]


# One draw tells several facts: hypothesis takes its time over each.
_PLAIN: dict[str, Any] = {}
FLAVOURS: list[dict[str, Any]] = [
    *[_PLAIN] * 8,
    {"weight_version": "9", "logprobs_mode": "raw"},
    {"weight_version": "10", "logprobs_mode": "processed"},
    {"weight_version": "11", "purpose": "eval"},
    {"purpose": "aux"},
    {"fidelity": "partial"},
    {"fidelity": "none", "turn": None},
    {"status": "client_disconnected"},
    {"status": "client_disconnected", "fidelity": "partial"},
    {"status": "backend_error", "fidelity": "none"},
    {"status": "running", "fidelity": "none"},
    {"turn": None},  # Not given by the database yet.
    {"turn": 0},  # Given twice, by two gateways' spools.
]
SPANS = (WeightSpan("9", 0, 1), WeightSpan("10", 1, 3))
TOLD: list[dict[str, Any]] = [
    *[_PLAIN] * 8,
    {"logprobs": None},
    {"logprobs": (None, -0.5, -0.25)},
    {"logprobs": (1.0, -0.5, -0.25)},
    {"weight_versions": SPANS},
    {"finish_reason": "length"},
    {"token_ids": None, "logprobs": None},
    {"prompt_token_ids": TokenIds([0])},
    {"prompt_token_ids": TokenIds([])},
]


@st.composite
def choices(draw: st.DrawFn, index: int, *, exact: bool) -> Choice:
    own = draw(st.one_of(sampled, sampled, ids))
    told = dict(draw(st.sampled_from(TOLD)))
    if exact and "token_ids" in told:
        told = {}
    logprobs = told.pop("logprobs", tuple(-each / 64 for each in own))
    fields: dict[str, Any] = {"token_ids": TokenIds(own), "finish_reason": "stop", "text": "said"} | told
    return Choice(index, logprobs=None if logprobs is None else logprobs[: len(own)], **fields)


@st.composite
def prompts(draw: st.DrawFn, history: History) -> list[int]:
    """A new one, one that goes on from anything so far, or what is left of it after compaction."""
    if not history.texts or draw(st.integers(0, 4)) == 0:
        return draw(ids)
    text = draw(st.sampled_from(history.texts))
    if draw(st.integers(0, 4)) == 0:
        text = text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text[1:]
    return [*text, *draw(ids)]


@st.composite
def calls(draw: st.DrawFn, history: History) -> Trace:
    number = len(history.traces)
    told = {"parent_trace_id": "t0", "fidelity": "exact"} | draw(st.sampled_from(FLAVOURS))
    again = draw(st.sampled_from([None] * 4 + ["alike", "equal", "superseding"])) if history.traces else None
    if again is None:
        prompt = draw(prompts(history))
    else:
        earlier = draw(st.sampled_from(history.traces))
        prompt = (earlier.prompt_token_ids or TokenIds()).tolist()
        if again == "equal":
            return turn(number, prompt, **(told | {"choices": earlier.choices, "fidelity": earlier.fidelity}))
        told["retry_of"] = earlier.trace_id if again == "superseding" else None
    exact = told["fidelity"] == "exact"
    told["choices"] = tuple(
        draw(choices(index, exact=exact)) for index in range(draw(st.sampled_from([1, 1, 1, 2, 3])))
    )
    return turn(number, prompt, **told)


@st.composite
def sessions(draw: st.DrawFn) -> list[Trace]:
    """Its traces in the order in which they were called."""
    history = History()
    for _ in range(draw(st.integers(0, 9))):
        history.add(draw(calls(history)))
    return history.traces
