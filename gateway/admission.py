"""How many calls run at a time, in all and of each key; and how many a key may begin in a minute."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from adapters.schema import Trace
from gateway.keys import Caller, KeyRing, is_session_key, keys_in
from gateway.refusals import RateLimited, Refusal, TooManyCalls
from storage.usage import tokens_of


@dataclass(frozen=True, slots=True)
class Holder:
    """Under what a call is counted."""

    name: str
    caller: Caller | None = None
    """Null for a session's own key, and for any key where all are taken."""


_NOBODY: Final = Holder("")


class Admission:
    """None is no limit. Where agents need keys, one that is not known is nobody's."""

    def __init__(
        self,
        *,
        max_calls: int | None = None,
        max_calls_per_key: int | None = None,
        ring: KeyRing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_calls = max_calls
        self._max_calls_per_key = max_calls_per_key
        self._ring = ring or KeyRing()
        self._clock = clock
        self._calls = 0
        self._by_key: Counter[str] = Counter()

    def holder(self, headers: Mapping[str, str]) -> Holder:
        """Under which key a call is counted. Another that comes with it and opens nothing makes no difference."""
        if self._max_calls_per_key is None and not self._ring.has_limits:
            return _NOBODY
        for key in keys_in(headers):
            caller = self._ring.caller(key)
            if caller is not None and "infer" in caller.scopes:
                return Holder(caller.by, caller)
            if is_session_key(key) or (caller is None and not self._ring.needs_agents_keys):
                return Holder(key)
        return _NOBODY

    def enter(self, holder: Holder) -> Refusal | None:
        """Counts a call, which leaves later, unless it is one too many."""
        if self._max_calls is not None and self._calls >= self._max_calls:
            return TooManyCalls(f"{self._calls} calls are running, which is as many as may (`max_calls`).")
        refusal = self._crowded(holder) or self._too_fast(holder.caller)
        if refusal is None:
            self._calls += 1
            self._by_key[holder.name] += 1
        return refusal

    def leave(self, holder: Holder, trace: Trace | None = None) -> None:
        """`trace`: what the call has become, where it became anything."""
        self._calls -= 1
        self._by_key[holder.name] -= 1
        if not self._by_key[holder.name]:
            del self._by_key[holder.name]
        caller = holder.caller
        if trace is not None and caller is not None and caller.meter is not None:
            caller.meter.tokens.add(sum(tokens_of(trace)), self._clock())

    def _crowded(self, holder: Holder) -> TooManyCalls | None:
        own = holder.caller.max_calls if holder.caller is not None else None
        most, setting = (self._max_calls_per_key, "max_calls_per_key") if own is None else (own, "max_calls")
        running = self._by_key[holder.name]
        if most is None or running < most:
            return None
        return TooManyCalls(f"{running} calls of this key are running, which is as many as may (`{setting}`).")

    def _too_fast(self, caller: Caller | None) -> RateLimited | None:
        if caller is None or caller.meter is None:
            return None
        now = self._clock()
        meter = caller.meter
        if caller.tokens_per_minute is not None and (wait := meter.tokens.wait(caller.tokens_per_minute, now)):
            return RateLimited(f"This key may use {caller.tokens_per_minute} tokens a minute.", wait)
        if caller.calls_per_minute is not None:
            if wait := meter.calls.wait(caller.calls_per_minute, now):
                return RateLimited(f"This key may make {caller.calls_per_minute} calls a minute.", wait)
            meter.calls.add(1, now)
        return None
