"""One sample to look at, a two-turn tool rollout; and any sample at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from adapters.schema import Reward, RoutedExperts, WeightSpan
from adapters.token_ids import TokenIds
from storage.formats.writers import encode_row
from storage.samples.sample import Finding, Sample, SampledSpan
from tests.storage.examples import counts, finite, json_objects, maybe, moments, words

QUICK = settings(max_examples=30, deadline=None)
"""For samples take long to make up, and a first call imports what pyarrow converts with."""

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)

TOOL_SAMPLE = Sample(
    session_id="math-17",
    branch=0,
    #                   prompt        | sampled   | tool | sampled
    token_ids=TokenIds([1, 2, 3, 4, 10, 11, 12, 5, 6, 13, 14]),
    mask=np.array([0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1], np.int8),
    logprobs=np.array([0, 0, 0, 0, -0.5, -0.25, -0.125, 0, 0, -1, -2], np.float32),
    first_prompt_len=4,
    spans=(
        SampledSpan("call-1", 0, 4, 7, True, "tool_calls", 0.7, "processed"),
        SampledSpan("call-2", 0, 9, 11, True, "stop", 0.7, "processed"),
    ),
    weight_versions=(WeightSpan("7", 4, 7), WeightSpan("8", 9, 11)),
    weight=0.5,
    reward=0.75,
    rewards=(Reward("judge-1", "correct", 0.75, NOON, metadata={"judge": "unit tests"}),),
    run_id="run-1",
    group_id="math",
    attempt=0,
    purpose="train",
    status="finished",
    trace_ids=("call-1", "call-2"),
    agent_id="ses_b",
    parent_agent_id="ses_a",
    model="qwen",
    findings=(Finding("mixed_weight_versions", False, "Sampled by weights 7 and 8.", ("call-1", "call-2")),),
    metadata={"task": "17"},
)


TOOL_BESIDE = {
    "session_id": "math-17",
    "branch": 0,
    "run_id": "run-1",
    "group_id": "math",
    "attempt": 0,
    "purpose": "train",
    "status": "finished",
    "agent_id": "ses_b",
    "parent_agent_id": "ses_a",
    "model": "qwen",
    "first_prompt_len": 4,
    "truncated": False,
    "weight": 0.5,
    "reward": 0.75,
    "weight_versions": [{"version": "7", "start": 4, "end": 7}, {"version": "8", "start": 9, "end": 11}],
    "spans": [
        {
            "trace_id": "call-1",
            "index": 0,
            "start": 4,
            "end": 7,
            "trained": True,
            "finish_reason": "tool_calls",
            "temperature": 0.7,
            "logprobs_mode": "processed",
            "routed_experts": None,
        },
        {
            "trace_id": "call-2",
            "index": 0,
            "start": 9,
            "end": 11,
            "trained": True,
            "finish_reason": "stop",
            "temperature": 0.7,
            "logprobs_mode": "processed",
            "routed_experts": None,
        },
    ],
    "rewards": [
        {
            "reward_id": "judge-1",
            "name": "correct",
            "value": 0.75,
            "created_at": "2026-11-21T12:00:00Z",
            "weight": 1.0,
            "trace_id": None,
            "metadata": {"judge": "unit tests"},
        }
    ],
    "trace_ids": ["call-1", "call-2"],
    "findings": [
        {
            "code": "mixed_weight_versions",
            "fatal": False,
            "detail": "Sampled by weights 7 and 8.",
            "trace_ids": ["call-1", "call-2"],
        }
    ],
    "metadata": {"task": "17"},
}
"""Its row as JSON, without the arrays."""


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as whoever reads it over HTTP has it."""
    return dict(msgspec.json.decode(encode_row(row)))


def same(left: Sample, right: Sample) -> bool:
    """Equal in every field; a NaN equals a NaN."""
    for field in fields(Sample):
        a, b = getattr(left, field.name), getattr(right, field.name)
        if isinstance(a, np.ndarray):
            if a.dtype != b.dtype or not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
                return False
        elif a != b:
            return False
    return True


@st.composite
def samples(draw: st.DrawFn, all_told: bool = False, prompted: bool = False) -> Sample:
    """Any sample, whole in itself: spans stand one after the other behind a prompt, and only they are trained.

    `all_told`: no logprob is missing. `prompted`: something stands before the first span.
    """
    token_ids: list[int] = draw(st.lists(counts, min_size=int(prompted), max_size=4))
    mask, logprobs = [0] * len(token_ids), [0.0] * len(token_ids)
    first_prompt_len = len(token_ids)
    spans: list[SampledSpan] = []
    for number in range(draw(st.integers(1, 3))):
        start, sampled = len(token_ids), draw(st.lists(counts, min_size=1, max_size=4))
        trained = draw(st.booleans())
        token_ids += sampled
        mask += [int(trained)] * len(sampled)
        told = st.floats(-50, 0, width=32) | (st.nothing() if all_told else st.just(float("nan")))
        logprobs += [draw(told) if trained else 0.0 for _ in sampled]
        spans.append(_span(draw, f"call-{number}", start, len(token_ids), trained))
        between = draw(st.lists(counts, max_size=3))
        token_ids += between
        mask += [0] * len(between)
        logprobs += [0.0] * len(between)
    return Sample(
        session_id=draw(words),
        branch=draw(counts),
        token_ids=TokenIds(token_ids),
        mask=np.array(mask, np.int8),
        logprobs=np.array(logprobs, np.float32),
        first_prompt_len=first_prompt_len,
        spans=tuple(spans),
        weight_versions=tuple(WeightSpan(draw(words), span.start, span.end) for span in spans if draw(st.booleans())),
        weight=draw(finite),
        reward=draw(maybe(finite)),
        rewards=draw(st.lists(_rewards, max_size=2).map(tuple)),
        run_id=draw(maybe(words)),
        group_id=draw(maybe(words)),
        attempt=draw(counts),
        purpose=draw(maybe(st.sampled_from(["train", "eval", "aux"]))),
        status=draw(st.sampled_from(["open", "finished", "failed", "aborted"])),
        trace_ids=tuple(span.trace_id for span in spans),
        model=draw(maybe(words)),
        truncated=draw(st.booleans()),
        findings=draw(st.lists(_findings, max_size=2).map(tuple)),
        metadata=draw(_storable),
    )


def _span(draw: st.DrawFn, trace_id: str, start: int, end: int, trained: bool) -> SampledSpan:
    return SampledSpan(
        trace_id=trace_id,
        index=draw(counts),
        start=start,
        end=end,
        trained=trained,
        finish_reason=draw(maybe(words)),
        temperature=draw(maybe(finite)),
        logprobs_mode=draw(maybe(st.sampled_from(["raw", "processed"]))),
        routed_experts=draw(
            maybe(st.builds(RoutedExperts, st.binary(max_size=9), maybe(st.tuples(counts, counts)), maybe(words)))
        ),
    )


def _as_read(metadata: dict[str, Any]) -> dict[str, Any]:
    """As it comes out of a database: JSON's largest numbers are floats there."""
    return dict(msgspec.json.decode(json.dumps(metadata)))


_storable = json_objects.map(_as_read)
_rewards = st.builds(Reward, words, words, finite, moments, weight=finite, trace_id=maybe(words), metadata=_storable)
_findings = st.builds(Finding, words, st.booleans(), words, st.lists(words, max_size=2).map(tuple))
