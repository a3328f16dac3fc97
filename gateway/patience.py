"""How long a call waits for the database to tell it something: briefly, and not at all while it is known to be away.

A database that refuses, hangs or is slow does not touch the agents. So whatever a call asks it before its backend
begins (whose it is, what its session has used up) is asked through one of these, and has an answer for silence.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gateway.deadline import Deadline
from storage.errors import Unavailable

T = TypeVar("T")

logger = logging.getLogger(__name__)

LIMIT_SECONDS: Final = 2.0
# So often one call finds out whether it is back, while all others go on without.
_TRIED_EVERY: Final = 1.0


class Patience:
    """Shared by all calls of a gateway, for one event loop."""

    def __init__(self, limit: float = LIMIT_SECONDS, *, clock: Callable[[], float] = time.monotonic) -> None:
        """In seconds."""
        self._limit = limit
        self._clock = clock
        self._away_until: float | None = None
        """When one may ask again; null while it answers."""

    async def wait_for(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the database answers. Raises Unavailable where it does not in time; and what `ask` raises."""
        if self._away_until is not None:
            if self._clock() < self._away_until:
                raise Unavailable("the database did not answer a moment ago")
            self._put_off(self._limit)  # This one tries; those that come meanwhile don't wait with it.
        try:
            with Deadline(self._limit):
                answer = await ask()
        except Unavailable as exc:
            self._is_away(exc)
            raise
        except TimeoutError as exc:
            silent = Unavailable(f"the database did not answer within {self._limit:g} s")
            self._is_away(silent)
            raise silent from exc
        except Exception:
            self._is_here()  # «No» is an answer.
            raise
        self._is_here()
        return answer

    def _is_here(self) -> None:
        if self._away_until is not None:
            self._away_until = None
            logger.warning("the database answers again")

    def _is_away(self, why: Unavailable) -> None:
        if self._away_until is None:
            logger.warning("calls go on without the database: %s", why)
        self._put_off(0.0)

    def _put_off(self, seconds: float) -> None:
        self._away_until = self._clock() + seconds + _TRIED_EVERY
