"""JSON kept as text: an object is opened one level at a time, and joined again without reprinting a number."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, TypeGuard, TypeVar

import msgspec
from msgspec import Raw

Fields = dict[str, Raw]
"""An opened object: the JSON text of each member, in the order in which they came."""

NULL: Final = Raw(b"null")
TRUE: Final = Raw(b"true")
FALSE: Final = Raw(b"false")

_object = msgspec.json.Decoder(dict[str, Raw]).decode
_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_array = msgspec.json.Decoder(list[Raw]).decode
_text = msgspec.json.Decoder(str).decode
_integer = msgspec.json.Decoder(int).decode
_T = TypeVar("_T")

# The names that every chunk has, as they stand before a value.
_MEMBERS: Final = {
    name: b',"%s":' % name.encode()
    for name in (
        *("id", "object", "created", "model", "choices", "usage", "system_fingerprint", "index", "delta", "message"),
        *("text", "logprobs", "finish_reason", "stop_reason", "matched_stop", "token_ids", "content", "role"),
    )
}

# What msgspec raises for bytes that are not what was asked for; RecursionError for very deep nesting.
REFUSALS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class NotJSON(ValueError):
    """The bytes are not JSON of the shape that was expected."""


def open_object(raw: bytes | Raw) -> Fields:
    """The members of a JSON object. Raises NotJSON."""
    try:
        return _object(raw)
    except REFUSALS as exc:
        raise NotJSON(str(exc)) from exc


def open_objects(raw: bytes | Raw) -> list[Fields]:
    """The members of each object of a JSON array. Raises NotJSON."""
    try:
        return _objects(raw)
    except REFUSALS as exc:
        raise NotJSON(str(exc)) from exc


def open_array(raw: bytes | Raw) -> list[Raw]:
    """The items of a JSON array. Raises NotJSON."""
    try:
        return _array(raw)
    except REFUSALS as exc:
        raise NotJSON(str(exc)) from exc


def decode(raw: bytes | Raw, decoder: msgspec.json.Decoder[_T]) -> _T:
    """What the decoder makes of it. Raises NotJSON."""
    try:
        return decoder.decode(raw)
    except REFUSALS as exc:
        raise NotJSON(str(exc)) from exc


def text(raw: Raw | None) -> str | None:
    """The string that this is, or None for anything else."""
    if raw is None:
        return None
    try:
        return _text(raw)
    except REFUSALS:
        return None


def integer(raw: Raw | None) -> int | None:
    """The integer that this is, or None for anything else, booleans and 1.0 included."""
    if raw is None:
        return None
    try:
        return _integer(raw)
    except REFUSALS:
        return None


def told(raw: Raw | None) -> TypeGuard[Raw]:
    """Whether a member is there and is not null."""
    return raw is not None and raw != NULL


def same(one: Raw, other: Raw) -> bool:
    """Whether two JSON lists of numbers say the same, white space aside."""
    return one == other or bytes(one).translate(None, b" \t\r\n") == bytes(other).translate(None, b" \t\r\n")


def join_object(fields: Mapping[str, Raw]) -> bytes:
    """The JSON text of an object with these members."""
    if not fields:
        return b"{}"
    parts: list[bytes | Raw] = []
    for name, raw in fields.items():
        parts += (_MEMBERS.get(name) or _member(name), raw)
    parts[0] = b"{" + bytes(parts[0])[1:]
    parts.append(b"}")
    return b"".join(parts)


def join_array(items: Iterable[bytes | Raw]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def mend(body: bytes) -> bytes:
    """Strict JSON out of what lenient printers write: NaN and infinities become null, half a surrogate pair `?`.

    Raises NotJSON for what is not JSON even so. Numbers may be reprinted, so this is for what could not be read else.
    """
    try:
        value = json.loads(body, parse_constant=lambda _: None)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    except (ValueError, RecursionError) as exc:
        raise NotJSON(str(exc)) from exc


def _member(name: str) -> bytes:
    return b"," + msgspec.json.encode(name) + b":"
