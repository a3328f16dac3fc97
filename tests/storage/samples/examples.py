"""Calls of one session that a test names in a line: ids in view, and logprobs that tell which id they are of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adapters.schema import Choice, Session, Trace
from adapters.token_ids import TokenIds
from storage.samples.build import samples_of
from storage.samples.options import SampleOptions
from storage.samples.sample import Sample
from tests.storage.examples import call, session

SESSION = session("s", run_id="run", group_id="group", status="finished")


def logprobs_of(ids: Sequence[int]) -> tuple[float, ...]:
    """Of id 3 it is −3/64: a float32 holds it exactly."""
    return tuple(-each / 64 for each in ids)


def choice(index: int, ids: Sequence[int], **fields: Any) -> Choice:
    told: dict[str, Any] = {"logprobs": logprobs_of(ids), "finish_reason": "stop"}
    return Choice(index, TokenIds(ids), **(told | fields))


def turn(number: int, prompt: Sequence[int] | None, *sampled: Sequence[int], **fields: Any) -> Trace:
    """The exact call `t0`, `t1`, `t2` … that sampled these ids, one list a choice."""
    told: dict[str, Any] = {
        "trace_id": f"t{number}",
        "turn": number,
        "choices": tuple(choice(index, ids) for index, ids in enumerate(sampled)),
    }
    return call("s", None if prompt is None else list(prompt), **(told | fields))


def built(*traces: Trace, of: Session = SESSION, **options: Any) -> tuple[Sample, ...]:
    return samples_of(of, traces, SampleOptions(**options))


def marked(sample: Sample) -> str:
    """Its ids, those with mask 1 in brackets: `1 2 [3] 4`."""
    words = [f"[{each}]" if on else str(each) for each, on in zip(sample.token_ids, sample.mask, strict=True)]
    return " ".join(words)


def rows(*traces: Trace, of: Session = SESSION, **options: Any) -> list[str]:
    return [marked(sample) for sample in built(*traces, of=of, **options)]


def codes(sample: Sample) -> list[str]:
    return [finding.code for finding in sample.findings]


def nan_to_none(values: np.ndarray[Any, np.dtype[np.float32]]) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
