"""The way in to an endpoint: one parse, the fields that we read checked, the rest left raw."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec

from adapters.raw import told
from gateway.dialects.dialect import BadRequest

Fields = dict[str, msgspec.Raw]
_T = TypeVar("_T")

_FIELDS = msgspec.json.Decoder(Fields)


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


def fields_of(body: bytes) -> Fields:
    """The root fields, each with its own JSON text. Raises BadRequest for anything but a JSON object."""
    if not body.strip():
        raise BadRequest("The request body is empty; send a JSON object.", code="invalid_json")
    try:
        return _FIELDS.decode(body)
    except msgspec.ValidationError:
        raise BadRequest("The request body must be a JSON object.", code="invalid_json") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise BadRequest(f"The request body is not valid JSON: {exc}", code="invalid_json") from None


def text_fields_of(body: bytes) -> Fields:
    """The root fields of a body that is text throughout: what is kept raw is not looked into again."""
    try:
        if not body.isascii():  # Which is told without a copy.
            body.decode()
    except UnicodeDecodeError as exc:
        raise BadRequest(f"The request body is not valid JSON: {exc}", code="invalid_json") from None
    return fields_of(body)


def read_field(fields: Fields, name: str, type_: type[_T] | Any, wanted: str) -> _T | None:
    """One field that we read. Null and absent are None; another type is a BadRequest that names it."""
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        value: _T | None = _decoder_of(cast(Any, type_)).decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRequest(f"`{name}` must be {wanted}.", param=name, code="invalid_type") from None
    return value


def read_list(fields: Fields, name: str, wanted: str) -> msgspec.Raw | None:
    """A list that we only pass on, closed: it may be nearly all of the body. Null and absent are None."""
    raw = fields.get(name)
    if not told(raw):
        return None
    if bytes(memoryview(raw)[:1]) != b"[":
        raise BadRequest(f"`{name}` must be {wanted}.", param=name, code="invalid_type")
    return raw


def is_empty(raw: msgspec.Raw) -> bool:
    """Whether this list is one without items."""
    return not bytes(raw).strip(b"[] \t\r\n")


@lru_cache
def _decoder_of(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_ | None)


def read_count(fields: Fields, name: str) -> int:
    """`n`: a positive integer, 1 where absent."""
    count: int | None = read_field(fields, name, int, "a positive integer")
    if count is None:
        return 1
    if count < 1:
        raise BadRequest(f"`{name}` must be a positive integer, not {count}.", param=name, code="invalid_value")
    return count


def read_include_usage(fields: Fields) -> bool:
    options: StreamOptions | None = read_field(fields, "stream_options", StreamOptions, "an object")
    return bool(options and options.include_usage)
