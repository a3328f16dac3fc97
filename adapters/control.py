"""What an administrator asks of an engine itself, beside its calls: to pause, to go on, to forget its caches.

Pure: an adapter says what to send, or in words why its engine has no such thing. Whoever sends it has the credential.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["pause", "resume", "flush"]
EnginePause = Literal["wait", "keep", "abort"]
"""What becomes of requests in flight: they end, are frozen and go on later, or end now with what they have."""


class NotOffered(Exception):
    """This engine, in this version, has no such thing; the words say what there is instead."""


@dataclass(frozen=True, slots=True)
class Command:
    """One request to an engine. Any 2xx says that it was done."""

    path: str
    body: bytes = b""
    """JSON; empty: none."""
    absent: str | None = None
    """What a 404 or 405 means there."""
