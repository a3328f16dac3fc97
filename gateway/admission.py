"""How many calls run at a time: in all, and of each key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from gateway.keys import KeyRing, is_session_key, keys_in
from gateway.refusals import TooManyCalls


class Admission:
    """None is no limit. Where `agent_keys` are configured, a key that is none of them is nobody's."""

    def __init__(
        self, *, max_calls: int | None = None, max_calls_per_key: int | None = None, agent_keys: Collection[str] = ()
    ) -> None:
        self._max_calls = max_calls
        self._max_calls_per_key = max_calls_per_key
        self._agent_keys = KeyRing(agent_keys)
        self._calls = 0
        self._by_key: Counter[str] = Counter()

    def key_of(self, headers: Mapping[str, str]) -> str:
        """Under which key a call is counted. Another that comes with it and opens nothing makes no difference."""
        if self._max_calls_per_key is None:
            return ""
        return next((key for key in keys_in(headers) if self._opens(key)), "")

    def enter(self, key: str) -> TooManyCalls | None:
        """Counts a call, which leaves later, unless it is one too many."""
        if self._max_calls is not None and self._calls >= self._max_calls:
            return TooManyCalls(f"{self._calls} calls are running, which is as many as may (`max_calls`).")
        if self._max_calls_per_key is not None:
            if self._by_key[key] >= self._max_calls_per_key:
                words = f"{self._by_key[key]} calls of this key are running, which is as many as may"
                return TooManyCalls(f"{words} (`max_calls_per_key`).")
            self._by_key[key] += 1
        self._calls += 1
        return None

    def leave(self, key: str) -> None:
        self._calls -= 1
        if self._max_calls_per_key is not None:
            self._by_key[key] -= 1
            if not self._by_key[key]:
                del self._by_key[key]

    def _opens(self, key: str) -> bool:
        return not self._agent_keys or is_session_key(key) or self._agent_keys.has(key)
