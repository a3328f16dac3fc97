"""A backend's refusal in one shape, from every envelope that servers and the proxies before them put it in."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from adapters.raw import NotJSON, integer, open_array, open_object, text, told
from adapters.schema import Error

_MAX_PLAIN: Final = 4000
_NO_ERROR: Final = (b"false", b'""', b"{}", b"[]")
_TAGS: Final = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<[^>]*>")
_TITLE: Final = re.compile(r"(?is)<title[^>]*>(.*?)</title>")


def read_error(status: int, body: bytes) -> Error:
    """What a body with an error status says: nested, flat, a framework's `detail`, plain text, HTML, or nothing."""
    try:
        found = error_of(open_object(body), certain=True)
    except NotJSON:
        found = None
    if found is not None:
        return found if found.code is not None else _with_code(found, status)
    plain = _plain(body)
    return Error(plain or f"HTTP {status} without a word of explanation", type=None, code=status)


def error_of(root: Mapping[str, Raw], *, certain: bool = False) -> Error | None:
    """The error that an opened object tells, or None. `certain`: the status has said that it is one."""
    nested = root.get("error")
    if told(nested) and bytes(nested) not in _NO_ERROR:
        return _nested(nested)
    if certain or text(root.get("object")) == "error" or text(root.get("type")) == "error":
        return _flat(root)
    return None


def _nested(raw: Raw) -> Error:
    try:
        return _flat(open_object(raw)) or Error(_shown(raw))
    except NotJSON:
        return Error(text(raw) or _shown(raw))


def _flat(fields: Mapping[str, Raw]) -> Error | None:
    message = _message(fields)
    if message is None:
        return None
    code = fields.get("code")
    return Error(
        message,
        type=text(fields.get("type")),
        code=integer(code) if integer(code) is not None else text(code),
        param=text(fields.get("param")),
    )


def _message(fields: Mapping[str, Raw]) -> str | None:
    for name in ("message", "detail", "error_message", "msg"):
        raw = fields.get(name)
        if told(raw):
            return text(raw) or _validation(raw) or _shown(raw)
    return None


def _validation(raw: Raw) -> str | None:
    """FastAPI's list of what did not validate, as one sentence."""
    try:
        said = [(text(item.get("msg")), _shown(item.get("loc"))) for item in map(open_object, open_array(raw))]
    except NotJSON:
        return None
    return "; ".join(f"{message} at {place}" for message, place in said if message) or None


def _plain(body: bytes) -> str:
    words = body[: 16 * _MAX_PLAIN].decode(errors="replace")
    if (title := _TITLE.search(words)) is not None:
        words = title.group(1)
    elif words.lstrip()[:1] == "<":
        words = _TAGS.sub(" ", words)
    return " ".join(html.unescape(words).split())[:_MAX_PLAIN]


def _shown(raw: Raw | None) -> str:
    return bytes(raw or b"").decode(errors="replace")[:_MAX_PLAIN]


def _with_code(error: Error, status: int) -> Error:
    return Error(error.message, type=error.type, code=status, param=error.param)
