"""Traces and sessions to store: one that a test names what matters of, and any at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
from hypothesis import strategies as st

from adapters.schema import (
    Attempt,
    Choice,
    Error,
    RecordedRequest,
    RoutedExperts,
    Sampling,
    Session,
    ToolCall,
    Trace,
    Usage,
    WeightSpan,
)
from adapters.token_ids import TokenIds
from storage.ids import new_id

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def call(
    session_id: str,
    prompt: list[int] | None = None,
    *sampled: list[int],
    body: bytes = b"{}",
    **fields: Any,
) -> Trace:
    """A finished call whose choices sampled these ids."""
    told: dict[str, Any] = {
        "trace_id": new_id(),
        "session_id": session_id,
        "dialect": "chat",
        "status": "ok",
        "started_at": NOON,
        "request": RecordedRequest(body),
        "prompt_token_ids": None if prompt is None else TokenIds(prompt),
        "choices": tuple(Choice(index, TokenIds(ids)) for index, ids in enumerate(sampled)),
        "fidelity": "exact",
        "gateway_id": "gateway-1",
    }
    return Trace(**(told | fields))


def session(session_id: str, **fields: Any) -> Session:
    told: dict[str, Any] = {"session_id": session_id, "created_at": NOON}
    return Session(**(told | fields))


ids = st.lists(st.integers(0, 2**31 - 1), max_size=20).map(TokenIds)
words = st.text(max_size=12)
counts = st.integers(0, 2**31 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
moments = st.datetimes(
    datetime(2020, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7)), timezone(timedelta(hours=5, minutes=30))]),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | finite | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(words, json_values, max_size=3)
logprobs = st.none() | finite | st.floats(width=32, allow_nan=False) | st.sampled_from([-0.0, -np.inf, 5e-324])


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


@st.composite
def choices(draw: st.DrawFn, index: int) -> Choice:
    token_ids = draw(maybe(ids))
    length = len(token_ids or ())
    return Choice(
        index=index,
        token_ids=token_ids,
        logprobs=draw(maybe(st.lists(logprobs, min_size=length, max_size=length).map(tuple))),
        text=draw(maybe(words)),
        reasoning=draw(maybe(words)),
        tool_calls=draw(
            maybe(st.lists(st.builds(ToolCall, maybe(words), maybe(words), maybe(words)), max_size=2).map(tuple))
        ),
        finish_reason=draw(maybe(words)),
        stop_reason=draw(maybe(words | st.integers())),
        prompt_token_ids=draw(maybe(ids)),
        weight_versions=draw(maybe(st.lists(st.builds(WeightSpan, words, counts, counts), max_size=2).map(tuple))),
        routed_experts=draw(
            maybe(
                st.builds(
                    RoutedExperts,
                    st.binary(max_size=700),
                    maybe(st.lists(counts, max_size=3).map(tuple)),
                    maybe(words),
                )
            )
        ),
    )


@st.composite
def traces(draw: st.DrawFn, session_id: str) -> Trace:
    """Any trace that the database has yet to give a turn."""
    number = draw(st.integers(0, 3))
    return Trace(
        trace_id=new_id(),
        session_id=session_id,
        dialect=draw(st.sampled_from(["chat", "completions", "messages", "responses"])),
        status=draw(st.sampled_from(["ok", "client_disconnected", "backend_error", "interrupted", "rejected"])),
        started_at=draw(moments),
        request=RecordedRequest(draw(maybe(st.binary(max_size=2000))), draw(st.dictionaries(words, words, max_size=3))),
        attempt=draw(counts),
        parent_trace_id=draw(words.filter(bool)),
        parent_index=draw(counts),
        retry_of=draw(maybe(words)),
        model=draw(maybe(words)),
        served_model=draw(maybe(words)),
        http_status=draw(maybe(counts)),
        error=draw(maybe(st.builds(Error, words, maybe(words), maybe(words | st.integers()), maybe(words)))),
        purpose=draw(st.sampled_from(["train", "eval", "aux"])),
        backend=draw(maybe(words)),
        engine=draw(maybe(words)),
        engine_version=draw(maybe(words)),
        attempts=draw(st.lists(st.builds(Attempt, words, moments, maybe(counts), maybe(words)), max_size=2).map(tuple)),
        plan=draw(maybe(st.sampled_from(["streamed", "buffered", "whole"]))),
        weight_version=draw(maybe(words)),
        sampling=draw(st.builds(Sampling, json_objects, json_objects)),
        prompt_token_ids=draw(maybe(ids)),
        choices=tuple(draw(choices(index)) for index in range(number)),
        usage=draw(maybe(st.builds(Usage, maybe(counts), maybe(counts), maybe(counts)))),
        usage_estimated=draw(st.booleans()),
        fidelity=draw(st.sampled_from(["exact", "partial", "retokenized", "none"])),
        fidelity_reason=draw(maybe(words)),
        source=draw(maybe(words)),
        logprobs_fidelity=draw(st.sampled_from(["exact", "none"])),
        logprobs_reason=draw(maybe(words)),
        logprobs_mode=draw(maybe(st.sampled_from(["raw", "processed"]))),
        first_token_ms=draw(maybe(finite)),
        duration_ms=draw(maybe(finite)),
        request_id=draw(maybe(words)),
        gateway_id=draw(maybe(words)),
        harness=draw(json_objects),
        metadata=draw(json_objects),
    )
