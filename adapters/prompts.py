"""Prompts of one session, decoded as far as they are new: each turn's begins with the whole of the one before.

An engine tells a prompt of 32,000 ids as 160 KB of text, which takes longer to decode than all else of a call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec import Raw

from adapters.token_ids import TokenIds

ReadIds: TypeAlias = Callable[[Raw], TokenIds]
"""Reads the JSON text of a list of ids. Raises ValueError for anything else."""

_MAX_BYTES: Final = 64 * 1024 * 1024
_IDLE_S: Final = 300.0


class ToldPrompt:
    """Reads a session's prompts, and remembers the last. What it remembers changes no result, only how long it takes.

    Several threads may read at a time: what is remembered is one value, replaced as a whole.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[bytes, TokenIds] | None = None

    def __call__(self, raw: Raw) -> TokenIds:
        """As `TokenIds.from_json`."""
        text = bytes(raw)
        ids = self._going_on(text) or TokenIds.from_json(raw)
        self._last = text[:-1], ids
        return ids

    def __len__(self) -> int:
        """In bytes, about."""
        return len(self._last[0]) + len(bytes(self._last[1])) if self._last is not None else 0

    def _going_on(self, text: bytes) -> TokenIds | None:
        """The ids, where the text goes on from the last one's. It is JSON, so behind equal text stand equal ids."""
        if self._last is None:
            return None
        begin, ids = self._last
        if not text.startswith(begin):
            return None
        rest = text[len(begin) :]
        if rest == b"]":
            return ids
        # A digit that follows would make the last id another one.
        return ids + TokenIds.from_json(Raw(b"[" + rest[1:])) if rest[:1] == b"," and ids else None


@dataclass(frozen=True, slots=True)
class _Kept:
    prompt: ToldPrompt
    size: int
    at: float


class ToldPrompts:
    """The sessions whose prompts were read in the last minutes, as many as fit. For one thread."""

    def __init__(self, max_bytes: int = _MAX_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._bytes = 0
        # A dictionary for its order: the session that was kept last stands at the end.
        self._kept: dict[str, _Kept] = {}

    def of(self, session_id: str) -> ToldPrompt:
        """To read with, and to keep afterwards."""
        kept = self._kept.get(session_id)
        return ToldPrompt() if kept is None else kept.prompt

    def keep(self, session_id: str, prompt: ToldPrompt) -> None:
        self._forget(session_id)
        now = self._clock()
        if size := len(prompt):
            self._kept[session_id] = _Kept(prompt, size, now)
            self._bytes += size
        while self._kept and (self._bytes > self._max_bytes or self._first().at < now - _IDLE_S):
            self._forget(next(iter(self._kept)))

    def _first(self) -> _Kept:
        return next(iter(self._kept.values()))

    def _forget(self, session_id: str) -> None:
        kept = self._kept.pop(session_id, None)
        if kept is not None:
            self._bytes -= kept.size
