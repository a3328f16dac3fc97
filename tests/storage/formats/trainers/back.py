"""Trainers' rows back to flat samples: if it can be done, nothing was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adapters.schema import RoutedExperts
from storage.formats.flat import sample_from_row
from storage.samples.sample import Sample
from tests.storage.formats.examples import TOOL_SAMPLE


def from_split(
    prompt: Sequence[int],
    response: Sequence[int],
    mask: Sequence[int],
    logprobs: Sequence[float] | None,
    beside: Mapping[str, Any],
) -> Sample:
    """From a prompt and a response, to which mask and logprobs belong."""
    zeros = [0] * len(prompt)
    told = {} if logprobs is None else {"logprobs": [*zeros, *logprobs]}
    return sample_from_row({**beside, "token_ids": [*prompt, *response], "mask": [*zeros, *mask], **told})


EXPERTS = np.arange(10 * 2 * 2, dtype=np.uint8).reshape(10, 2, 2)
"""For each id of the tool sample but the last, in two layers the two experts that it went to."""

MOE_SAMPLE = replace(
    TOOL_SAMPLE,
    spans=tuple(
        replace(
            span,
            routed_experts=RoutedExperts(EXPERTS[: span.end - 1].tobytes(), EXPERTS[: span.end - 1].shape, "|u1"),
        )
        for span in TOOL_SAMPLE.spans
    ),
)
UNTOLD_SAMPLE = replace(TOOL_SAMPLE, logprobs=np.where(np.arange(11) == 5, np.float32("nan"), TOOL_SAMPLE.logprobs))
"""The second sampled token's logprob was not told."""
UNTOLD = [0, 0, 0, 0, -0.5, None, -0.125, 0, 0, -1, -2]
