"""Cursors: where a page ended, as a string that means nothing to whoever holds it."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from storage.errors import BadCursor

Key = TypeVar("Key")

Place: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
"""Of an ended session among all of them; 0 is before the first."""


def pack(key: tuple[object, ...]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).rstrip(b"=").decode()


def unpack(cursor: str, key: type[Key]) -> Key:
    """Raises BadCursor for what `pack` did not give for such a key."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=key)
    except (msgspec.DecodeError, binascii.Error, ValueError) as exc:
        raise BadCursor(f"{cursor!r} is not a cursor of this list") from exc
