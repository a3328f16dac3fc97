"""A pause in asking what does not answer: who comes meanwhile is told at once, and one who comes after it tries."""

from __future__ import annotations

import time
from typing import Final

from storage.errors import Unavailable

_SECONDS: Final = 1.0


class Pause:
    """For any thread: of two who find the same silence, either may have the last word."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds: Final = seconds
        self._until = float("-inf")
        self._why = ""

    def begin(self, why: Unavailable) -> None:
        self._why = str(why)
        self._until = time.monotonic() + self._seconds

    def check(self) -> None:
        """Raises Unavailable while it lasts."""
        if time.monotonic() < self._until:
            raise Unavailable(self._why)
