"""Events of a Responses stream: named, and numbered through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

JSON = Mapping[str, object]

_encode: Final = msgspec.json.Encoder().encode


class Events:
    """Numbers the events of one stream."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0

    def event(self, name: str, body: JSON) -> bytes:
        number, self._next = self._next, self._next + 1
        told = _encode({"type": name, "sequence_number": number, **body})
        return b"event: %b\ndata: %b\n\n" % (name.encode(), told)
