"""A trace as a trainer looks at it: what was sampled as numpy arrays, and everything that was told as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gateway.client.reading import array, each, known
from gateway.client.values import Fidelity, LogprobsFidelity, PlanMode, Purpose, Status


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One sampled completion."""

    index: int
    token_ids: npt.NDArray[np.int32] | None = None
    logprobs: npt.NDArray[np.float64] | None = None
    """One for each id, NaN where the engine told none for it; or null."""
    text: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        ids, logprobs = told.get("token_ids"), told.get("logprobs")
        return known(
            cls,
            told,
            token_ids=None if ids is None else array(ids, np.int32),
            logprobs=None if logprobs is None else array(logprobs, np.float64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The record of one model call."""

    trace_id: str
    session_id: str
    status: Status
    fidelity: Fidelity
    started_at: datetime
    turn: int | None = None
    purpose: Purpose = "train"
    model: str | None = None
    backend: str | None = None
    engine: str | None = None
    plan: PlanMode | None = None
    """How the backend was asked: `streamed`, `buffered` (whole, and streamed to the agent) or `whole`."""
    weight_version: str | None = None
    parent_trace_id: str | None = None
    parent_index: int | None = None
    fidelity_reason: str | None = None
    logprobs_fidelity: LogprobsFidelity = "none"
    logprobs_reason: str | None = None
    duration_ms: float | None = None
    prompt_token_ids: npt.NDArray[np.int32] | None = None
    choices: tuple[Choice, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All that the gateway told of it, under the names of the API."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        prompt = told.get("prompt_token_ids")
        return known(
            cls,
            told,
            started_at=datetime.fromisoformat(told["started_at"]),
            prompt_token_ids=None if prompt is None else array(prompt, np.int32),
            choices=each(Choice.of, told.get("choices")),
            raw=told,
        )
