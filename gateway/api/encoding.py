"""The schema's values as JSON, by msgspec: 100,000 ids are milliseconds here, and seconds in `jsonable_encoder`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Self

import msgspec

from adapters.schema import Choice, Error, RecordedRequest, Trace
from adapters.token_ids import TokenIds
from gateway.refusals import InvalidRequest
from gateway.settings.errors import unknown
from storage.codec import IN_COLUMNS

_TRACE_FIELDS: Final = tuple(field.name for field in fields(Trace))
_CHOICE_FIELDS: Final = tuple(f"choices.{field.name}" for field in fields(Choice))
# About how much of a page is encoded at once, in ids and bytes: small traces share a trip to a thread.
_BATCH: Final = 64 * 1024


def encode(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=_plain)


def _plain(value: object) -> object:
    if isinstance(value, TokenIds):
        return value.tolist()
    if isinstance(value, RecordedRequest):
        return {"body": _recorded_body(value.body), "headers": value.headers}
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} is not part of the schema")


def _recorded_body(body: bytes | None) -> object:
    """What an agent sent as the JSON that it is, numbers as they were written; as a string if it is none."""
    if body is None:
        return None
    try:
        body.decode()
        raw = msgspec.json.decode(body, type=msgspec.Raw)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return body.decode(errors="replace")
    # No JSON string holds a bare line end, so these are layout, which would split a line of JSON lines in two.
    return msgspec.Raw(bytes(raw).replace(b"\n", b" ").replace(b"\r", b" "))


@dataclass(frozen=True, slots=True)
class Selection:
    """Which fields of a trace are told: names of its own, and of its choices as `choices.logprobs`."""

    trace: tuple[str, ...] = _TRACE_FIELDS
    choice: tuple[str, ...] = _CHOICE_FIELDS

    @classmethod
    def of(cls, only: str | None, exclude: str | None) -> Self:
        """From comma-separated names: those alone, then without these. Raises InvalidRequest."""
        wanted = _names("fields", only)
        unwanted = _names("exclude", exclude)
        roots = {name.partition(".")[0] for name in wanted}
        trace = (name for name in _TRACE_FIELDS if not wanted or name in roots)
        whole = not wanted or "choices" in wanted
        choice = (name for name in _CHOICE_FIELDS if whole or name in wanted)
        return cls(
            tuple(name for name in trace if name not in unwanted),
            tuple(name for name in choice if name not in unwanted),
        )

    @property
    def has_payload(self) -> bool:
        """Whether anything is told for which a trace's payload has to be read."""
        return not IN_COLUMNS.issuperset(self.trace)

    def encode(self, trace: Trace) -> bytes:
        told = {name: getattr(trace, name) for name in self.trace}
        if "request" in told:
            # msgspec knows dataclasses and asks no hook for them, but bytes are no base64 here.
            told["request"] = _plain(trace.request)
        if "choices" in told and len(self.choice) < len(_CHOICE_FIELDS):
            names = [name.removeprefix("choices.") for name in self.choice]
            told["choices"] = [{name: getattr(choice, name) for name in names} for choice in trace.choices]
        return encode(told)

    def encode_all(self, traces: Sequence[Trace]) -> list[bytes]:
        return [self.encode(trace) for trace in traces]


def _names(param: str, listed: str | None) -> frozenset[str]:
    names = [name.strip() for name in (listed or "").split(",") if name.strip()]
    known = (*_TRACE_FIELDS, *_CHOICE_FIELDS)
    for name in names:
        if name not in known:
            message = f"{param}: {unknown(repr(name), name, known)}"
            raise InvalidRequest(Error(message, code="invalid_request", param=param))
    return frozenset(names)


def batches(traces: Sequence[Trace]) -> Iterator[Sequence[Trace]]:
    """A page in parts that are about equally much to encode."""
    begin, weight = 0, 0
    for end, trace in enumerate(traces, 1):
        weight += 1024 + weight_of(trace)
        if weight >= _BATCH:
            yield traces[begin:end]
            begin, weight = end, 0
    if begin < len(traces):
        yield traces[begin:]


def weight_of(trace: Trace) -> int:
    ids: list[Any] = [trace.prompt_token_ids, *(choice.token_ids for choice in trace.choices)]
    return sum(len(each) for each in ids if each is not None) + len(trace.request.body or b"")
