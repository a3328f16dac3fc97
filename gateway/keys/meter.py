"""What a key has used in the last minute, so that it can be told how long to wait."""

from __future__ import annotations

from collections import deque
from typing import Final

_SECONDS: Final = 60


class Minute:
    """A sum over the last minute. It is kept by whole seconds, so it forgets up to one second late, never early."""

    __slots__ = ("_parts", "_sum")

    def __init__(self) -> None:
        self._parts: deque[tuple[int, int]] = deque()
        self._sum = 0

    def add(self, amount: int, now: float) -> None:
        second = int(now)
        if self._parts and self._parts[-1][0] == second:
            amount_then = self._parts.pop()[1]
            self._parts.append((second, amount_then + amount))
        else:
            self._parts.append((second, amount))
        self._sum += amount

    def wait(self, limit: int, now: float) -> int:
        """Seconds until less than `limit` is in it; 0 where that is so now."""
        while self._parts and self._parts[0][0] + _SECONDS < int(now):
            self._sum -= self._parts.popleft()[1]
        left = self._sum
        for second, amount in self._parts:
            if left < limit:
                break
            left -= amount
            gone_at = second + _SECONDS + 1
        return 0 if left == self._sum else max(1, gone_at - int(now))


class Meter:
    """One key's calls and tokens."""

    __slots__ = ("calls", "tokens")

    def __init__(self) -> None:
        self.calls = Minute()
        self.tokens = Minute()
