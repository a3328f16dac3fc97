"""A request's field as the type that it is to be, or a refusal that names the place and what is wrong there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from gateway.dialects.dialect import BadRequest

T = TypeVar("T")

_WHERE: Final = re.compile(r"(?s)(.*?)(?: - at `(?:key in )?\$(.*)`)?")
_UNKNOWN_KIND: Final = re.compile(r"Invalid (?:enum )?value (.*)")


def as_it_is(path: str) -> str:
    return path


def read(
    raw: Raw | None, name: str, decoder: msgspec.json.Decoder[T], place: Callable[[str], str] = as_it_is
) -> T | None:
    """Absent and null are None. Raises BadRequest.

    `place` writes where in the field something is wrong (`[0].content`) in the manner of the API.
    """
    if raw is None or raw == Raw(b"null"):
        return None
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as exc:
        raise _refused(name, str(exc), place) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise BadRequest(f"{name}: not valid JSON: {exc}", param=name) from None


def _refused(name: str, said: str, place: Callable[[str], str]) -> BadRequest:
    """A decoder's complaint: where it is (`input[0].content`), and what is wrong there."""
    found = _WHERE.fullmatch(said)
    assert found is not None
    what, path = found[1], place(found[2] or "")
    where = name + path
    unknown = _UNKNOWN_KIND.fullmatch(what)
    if unknown is not None and where.endswith(".type"):
        kind = unknown[1].replace("'", "`")
        what = f"{kind} cannot be translated for the backends of this gateway"
    return BadRequest(f"{where}: {what}", param=where)
