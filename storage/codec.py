"""A trace as columns and payload, and back: nothing of it is lost on the way.

The payload is what is bulky: the ids (prompt, then each choice's), the text (the raw request body, then a JSON tail of
all that has no column), the logprobs and the routed experts. Ids and text of a session's traces repeat each other, so
the two are what bases are for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec

from adapters.schema import (
    Attempt,
    Choice,
    Error,
    RecordedRequest,
    RoutedExperts,
    Sampling,
    ToolCall,
    Trace,
    Usage,
    Verdict,
    WeightSpan,
)
from adapters.token_ids import TokenIds
from storage import hashes
from storage.arrays import BadPayload, Cutter, PackedLogprobs, pack_logprobs

Columns: TypeAlias = Mapping[str, Any]
"""Values by column name; the table says which type each has."""

DIGEST_SIZE: Final = 16
_LENGTHS: Final = struct.Struct("<4Q")
PLAIN_COLUMNS: Final = (
    "session_id",
    "trace_id",
    "turn",
    "attempt",
    "parent_trace_id",
    "parent_index",
    "retry_of",
    "dialect",
    "model",
    "served_model",
    "status",
    "http_status",
    "purpose",
    "backend",
    "engine",
    "engine_version",
    "plan",
    "weight_version",
    "usage_estimated",
    "fidelity",
    "fidelity_reason",
    "source",
    "logprobs_fidelity",
    "logprobs_reason",
    "logprobs_mode",
    "started_at",
    "first_token_ms",
    "duration_ms",
    "request_id",
    "gateway_id",
    "schema_version",
)
"""The fields of a trace that are columns of the same name."""
IN_COLUMNS: Final = frozenset(PLAIN_COLUMNS) - {field.name for field in fields(Verdict)}
"""The fields for which no payload has to be read. The verdict stands only where it can be."""
_UNREADABLE: Final = "unreadable"
"""In the metadata of a trace whose payload can't be read back: why not."""


@dataclass(frozen=True, slots=True)
class Payload:
    """The bulky parts of a trace, uncompressed."""

    text: bytes
    ids: bytes = b""
    logprobs: bytes = b""
    experts: bytes = b""

    def digest(self) -> bytes:
        lengths = _LENGTHS.pack(len(self.ids), len(self.text), len(self.logprobs), len(self.experts))
        whole = hashes.sha256(lengths, self.ids, self.text, self.logprobs, self.experts)
        return whole.digest()[:DIGEST_SIZE]

    def __len__(self) -> int:
        return len(self.text) + len(self.ids) + len(self.logprobs) + len(self.experts)


class _Experts(msgspec.Struct, frozen=True, omit_defaults=True):
    length: int
    shape: tuple[int, ...] | None = None
    dtype: str | None = None


class _Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A choice without its arrays: of ids it tells how many."""

    index: int
    token_ids: int | None = None
    prompt_token_ids: int | None = None
    logprobs: PackedLogprobs | None = None
    text: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    weight_versions: tuple[WeightSpan, ...] | None = None
    routed_experts: _Experts | None = None


class _Tail(msgspec.Struct, frozen=True, omit_defaults=True):
    """All of a trace that has neither a column nor an array."""

    has_body: bool
    headers: dict[str, str] = {}
    error: Error | None = None
    attempts: tuple[Attempt, ...] = ()
    sampling: Sampling | None = None
    usage: Usage | None = None
    harness: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    prompt_token_ids: int | None = None
    choices: tuple[_Choice, ...] = ()


_LENGTH: Final = struct.Struct("<I")
_NO_SAMPLING: Final = Sampling()
_plain_fields: Final = attrgetter(*PLAIN_COLUMNS)
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Tail).decode


def columns(trace: Trace) -> dict[str, Any]:
    return dict(zip(PLAIN_COLUMNS, _plain_fields(trace), strict=True))


def running_payload(trace: Trace) -> Payload:
    """What is kept of a call that has not ended. Its body, the bulk of it, is written once, with the end."""
    return Payload(text=_join(None, _tail(trace)))


def payload(trace: Trace) -> Payload:
    """Raises TypeError or ValueError for what JSON can't have (an object in the metadata, half a surrogate pair)."""
    floats: list[bytes] = []
    tail = _tail(
        trace,
        has_body=trace.request.body is not None,
        prompt_token_ids=_length(trace.prompt_token_ids),
        choices=tuple(_pack_choice(choice, floats) for choice in trace.choices),
    )
    return Payload(
        text=_join(trace.request.body, tail),
        ids=b"".join(bytes(ids) for ids in _id_lists(trace)),
        logprobs=b"".join(floats),
        experts=b"".join(c.routed_experts.data for c in trace.choices if c.routed_experts is not None),
    )


def trace(plain: Columns, stored: Payload) -> Trace:
    """The trace of these columns and this payload. Raises BadPayload."""
    try:
        body, tail = _split(stored.text)
        ids, floats, experts = Cutter(stored.ids), Cutter(stored.logprobs), Cutter(stored.experts)
        prompt = ids.token_ids(tail.prompt_token_ids)
        choices = tuple(_unpack_choice(packed, ids, floats, experts) for packed in tail.choices)
    except (msgspec.DecodeError, struct.error, ValueError) as exc:
        raise BadPayload(str(exc)) from exc
    return Trace(
        **_plain(plain),
        request=RecordedRequest(body=body, headers=tail.headers),
        error=tail.error,
        attempts=tail.attempts,
        sampling=tail.sampling or Sampling(),
        usage=tail.usage,
        harness=tail.harness,
        metadata=tail.metadata,
        prompt_token_ids=prompt,
        choices=choices,
    )


def without_payload(plain: Columns) -> Trace:
    """What the columns alone say of a trace."""
    return Trace(**_plain(plain), request=RecordedRequest(body=None))


def unreadable(plain: Columns, reason: str) -> Trace:
    """The trace of these columns whose payload is no longer known, and which so is exact in nothing."""
    why = f"can't be read back: {reason}"
    return replace(without_payload(plain), **asdict(Verdict("none", why, "none", why)), metadata={_UNREADABLE: reason})


def is_unreadable(trace: Trace) -> bool:
    """Whether `unreadable` made it."""
    return _UNREADABLE in trace.metadata


def _plain(columns: Columns) -> dict[str, Any]:
    return {name: columns[name] for name in PLAIN_COLUMNS}


def _tail(
    trace: Trace,
    *,
    has_body: bool = False,
    prompt_token_ids: int | None = None,
    choices: tuple[_Choice, ...] = (),
) -> _Tail:
    return _Tail(
        has_body=has_body,
        headers=dict(trace.request.headers),
        error=trace.error,
        attempts=trace.attempts,
        sampling=None if trace.sampling == _NO_SAMPLING else trace.sampling,
        usage=trace.usage,
        harness=dict(trace.harness),
        metadata=dict(trace.metadata),
        prompt_token_ids=prompt_token_ids,
        choices=choices,
    )


def _join(body: bytes | None, tail: _Tail) -> bytes:
    encoded = _encode(tail)
    return b"".join((body or b"", encoded, _LENGTH.pack(len(encoded))))


def _split(text: bytes) -> tuple[bytes | None, _Tail]:
    end = len(text) - _LENGTH.size
    start = end - _LENGTH.unpack_from(text, max(0, end))[0]
    if start < 0:
        raise BadPayload("the text is shorter than its tail")
    tail = _decode(text[start:end])
    return (text[:start] if tail.has_body else None), tail


def _id_lists(trace: Trace) -> Iterator[TokenIds]:
    """In the order in which a payload has them."""
    if trace.prompt_token_ids is not None:
        yield trace.prompt_token_ids
    for choice in trace.choices:
        if choice.prompt_token_ids is not None:
            yield choice.prompt_token_ids
        if choice.token_ids is not None:
            yield choice.token_ids


def _length(ids: TokenIds | None) -> int | None:
    return None if ids is None else len(ids)


def _pack_choice(choice: Choice, floats: list[bytes]) -> _Choice:
    packed: PackedLogprobs | None = None
    if choice.logprobs is not None:
        packed, array = pack_logprobs(choice.logprobs)
        floats.append(array)
    experts = choice.routed_experts
    return _Choice(
        index=choice.index,
        token_ids=_length(choice.token_ids),
        prompt_token_ids=_length(choice.prompt_token_ids),
        logprobs=packed,
        text=choice.text,
        reasoning=choice.reasoning,
        tool_calls=choice.tool_calls,
        finish_reason=choice.finish_reason,
        stop_reason=choice.stop_reason,
        weight_versions=choice.weight_versions,
        routed_experts=None if experts is None else _Experts(len(experts.data), experts.shape, experts.dtype),
    )


def _unpack_choice(packed: _Choice, ids: Cutter, floats: Cutter, experts: Cutter) -> Choice:
    prompt = ids.token_ids(packed.prompt_token_ids)
    token_ids = ids.token_ids(packed.token_ids)
    told = packed.routed_experts
    return Choice(
        index=packed.index,
        token_ids=token_ids,
        logprobs=None if packed.logprobs is None else floats.logprobs(packed.logprobs, len(token_ids or ())),
        text=packed.text,
        reasoning=packed.reasoning,
        tool_calls=packed.tool_calls,
        finish_reason=packed.finish_reason,
        stop_reason=packed.stop_reason,
        prompt_token_ids=prompt,
        weight_versions=packed.weight_versions,
        routed_experts=None
        if told is None
        else RoutedExperts(data=experts.take(told.length), shape=told.shape, dtype=told.dtype),
    )
