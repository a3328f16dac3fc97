"""SHA-256 without letting go of the interpreter for each list of ids.

hashlib does so from 2,048 bytes on. The writer's thread then has to win the interpreter back from the event loop, which
takes longer than to hash what a call brings. It is the fastest strong hash where the processor has instructions for it.
"""

from __future__ import annotations

import hashlib
from typing import Final, Protocol

_SMALL: Final = 2047
_LARGE: Final = 64 * 1024
"""Bytes that take so long that the loop had better go on meanwhile."""


class Hash(Protocol):
    """One of hashlib's."""

    def update(self, data: bytes | memoryview, /) -> None: ...
    def digest(self) -> bytes: ...
    def copy(self) -> Hash: ...


def sha256(*parts: bytes) -> Hash:
    """Of these parts, one behind the other."""
    begun: Hash = hashlib.sha256()
    for part in parts:
        update(begun, part)
    return begun


def update(begun: Hash, data: bytes | memoryview) -> None:
    """As if the hash were told the data at once."""
    if len(data) <= _SMALL or len(data) > _LARGE:
        begun.update(data)
        return
    view = memoryview(data)
    for start in range(0, len(view), _SMALL):
        begun.update(view[start : start + _SMALL])
