"""How one backend does, by what came of its calls and its probes: up, down, or to be tried with a single call.

It is down when it refused a connection, or failed twice in a row in another way. One that is slow is not down:
it is busy, and others are preferred to it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, Literal

Health = Literal["up", "half_open", "down"]

# One that is down is left in peace for this long, doubling with each failure in a row.
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
# More than it takes to get there, and fewer than a float can hold: a server may be away for a week.
_DOUBLINGS: Final = 16
_STRIKES: Final = 2
_LONG_AGO: Final = float("-inf")


class Pulse:
    """Plain state. `now` is seconds on a clock that only goes forward."""

    def __init__(self) -> None:
        self.failures = 0
        """In a row."""
        self.last_error: str | None = None
        """Of what it has not answered since."""
        self.last_error_at: datetime | None = None
        self.last_success_at: datetime | None = None
        self.slow = False
        """It let a probe or a call wait for too long, the last time that it was waited for."""
        self.tried = False
        """It is half-open, and a call is out that tries it."""
        self._down_until: float | None = None
        self._heard_at = _LONG_AGO
        self._spoke = False
        """A probe was answered since it was down."""

    def health(self, now: float) -> Health:
        if self._down_until is None:
            return "up"
        return "down" if now < self._down_until else "half_open"

    def takes_calls(self, now: float) -> bool:
        """A half-open one takes a single call, which shows whether it is back."""
        return self._down_until is None or (now >= self._down_until and not self.tried)

    def is_alive(self, now: float) -> bool:
        """Whether the last that is known of it is that it answered."""
        return self._down_until is None or (now >= self._down_until and self._spoke)

    @property
    def pause(self) -> float:
        """How long it would be left in peace after one more failure."""
        return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self.failures, _DOUBLINGS))

    def is_due(self, now: float, quiet: float) -> bool:
        """Whether to probe it: nothing was heard of it for so long, or it may be back."""
        if self._down_until is not None:
            return now >= self._down_until
        return self.failures > 0 or now - self._heard_at >= quiet

    def answered(self, now: float) -> None:
        """A call, with whatever shows that it can serve."""
        self.failures = 0
        self.last_error = None
        self.slow = self.tried = self._spoke = False
        self._down_until = None
        self._heard_at = now
        self.last_success_at = datetime.now(UTC)

    def spoke(self, now: float) -> None:
        """A probe was answered in time. One that was down shows by a call whether it serves, or by another probe."""
        if self._down_until is None or self._spoke:
            self.failures = 0
            self.last_error = self._down_until = None
            self._spoke = self.tried = False
        else:
            self._down_until = min(self._down_until, now)
            self._spoke = True
        self.slow = False
        self._heard_at = now

    def kept_waiting(self, why: str) -> None:
        """A probe, or a call for its first byte. That is no death: the busiest answer latest."""
        self.slow = True
        self.noted(why)

    def refused(self, why: str, now: float) -> None:
        """Nobody takes connections there."""
        if self.health(now) == "down":
            # All calls that it was at fail in that one moment, which is no reason to stay away for longer.
            self.noted(why)
            return
        self._down_until = now + self.pause
        self.failures += 1
        self.tried = self._spoke = False
        self.noted(why)

    def struck(self, why: str, now: float) -> None:
        """It took a connection and gave it up, or a probe failed: once may be chance."""
        if self.failures + 1 >= _STRIKES or self._down_until is not None:
            self.refused(why, now)
        else:
            self.failures += 1
            self.noted(why)

    def doubted(self) -> None:
        """It answered with an error of its own: it is to be probed soon."""
        self._heard_at = _LONG_AGO

    def noted(self, why: str) -> None:
        """What it last failed at, whatever that means."""
        self.last_error = why
        self.last_error_at = datetime.now(UTC)
