"""What the writer is given to do, as bytes that outlive the process, and back.

Pure. A trace is what it is in the database: its columns, and the payload of `storage.codec`, here without a base.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec

from adapters.schema import Session
from storage import codec, sessions
from storage.arrays import BadPayload
from storage.deltas import BadDelta, Encoder, decode
from storage.jobs import Begin, Finish, Pin, Record, begin_size, finish_size
from storage.tables import AnyRow

Encode = Callable[[bytes], bytes]

_START: Final = struct.Struct("<cdI")
"""The kind, when it was spooled (seconds of the wall clock), and the length of the head."""
START_SIZE: Final = _START.size
_BEGIN, _FINISH, _PIN = b"B", b"F", b"P"
_PIN_BYTES: Final = 1024


class BadEntry(ValueError):
    """Bytes that are no entry of this program's."""


class _Head(msgspec.Struct, frozen=True):
    columns: dict[str, Any]
    session: dict[str, Any] | None = None
    lengths: tuple[int, ...] = ()


_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(_Head).decode


class EntryEncoder:
    """For one thread."""

    def __init__(self) -> None:
        self._compress = Encoder().encode

    def encode(self, job: Record, now: float) -> bytes:
        """Raises TypeError or ValueError for what can't be stored anywhere: an object in the metadata, say."""
        if isinstance(job, Pin):
            pin = {"session_id": job.session_id, "backend": job.backend, "instead_of": job.instead_of}
            return _join(_PIN, now, _Head(pin))
        kind, payload = (
            (_BEGIN, codec.running_payload(job.trace))
            if isinstance(job, Begin)
            else (_FINISH, codec.payload(job.trace))
        )
        parts = [self._compress(part) for part in (payload.text, payload.ids, payload.logprobs, payload.experts)]
        session = None if job.session is None else sessions.to_row(job.session)
        head = _Head(codec.columns(job.trace), session, tuple(map(len, parts)))
        try:
            return _join(kind, now, head, parts)
        except OverflowError as exc:
            raise ValueError(str(exc)) from exc


def is_trace(start: bytes) -> bool:
    """Whether an entry that starts so is a trace that has ended."""
    return start.startswith(_FINISH)


def spooled_at(start: bytes) -> float:
    moment: float = _START.unpack_from(start)[1]
    return moment


def decode_entry(body: bytes) -> Record:
    """The job, which nobody waits for. Raises BadEntry."""
    try:
        kind, _, length = _START.unpack_from(body)
        head = _unpack(body[START_SIZE : START_SIZE + length])
        if kind == _PIN:
            return Pin(_PIN_BYTES, **head.columns)
        trace = codec.trace(head.columns, _payload(body[START_SIZE + length :], head.lengths))
        session = _session(head.session)
    except (msgspec.MsgspecError, struct.error, BadDelta, BadPayload, KeyError, TypeError, ValueError) as exc:
        raise BadEntry(str(exc)) from exc
    if kind == _BEGIN:
        return Begin(begin_size(trace), trace, session, again=True)
    if kind == _FINISH:
        return Finish(finish_size(trace), trace, None, session)
    raise BadEntry(f"unknown kind {kind!r}")


def _join(kind: bytes, now: float, head: _Head, parts: Iterable[bytes] = ()) -> bytes:
    packed = _pack(head)
    return b"".join((_START.pack(kind, now, len(packed)), packed, *parts))


def _payload(data: bytes, lengths: tuple[int, ...]) -> codec.Payload:
    parts = []
    start = 0
    for length in lengths:
        parts.append(decode(data[start : start + length]))
        start += length
    if start != len(data):
        raise BadEntry(f"{len(data)} bytes of payload in place of {start}")
    return codec.Payload(*parts)


def _session(row: dict[str, Any] | None) -> Session | None:
    return None if row is None else sessions.from_row(cast(AnyRow, SimpleNamespace(**row)))
