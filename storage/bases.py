"""Which earlier trace of a session a new one is stored against: the one most like it, or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from storage.codec import Payload
from storage.deltas import begin_alike
from storage.likeness import Sketch, shared, sketch

MAX_DEPTH: Final = 32
"""A trace so many bases deep is stored whole, so that no read has to undo more links."""
_MAX_CANDIDATES: Final = 8
_MAX_BYTES: Final = 8 * 1024 * 1024
_LEAST_LIKENESS: Final = 1 / 16


class Base:
    """The ids and text of a committed trace."""

    __slots__ = ("_sketch", "depth", "ids", "text", "trace_id")

    def __init__(self, trace_id: str, depth: int, text: bytes, ids: bytes) -> None:
        self.trace_id = trace_id
        self.depth = depth
        self.text = text
        self.ids = ids
        self._sketch: Sketch | None = None

    @property
    def sketch(self) -> Sketch:
        if self._sketch is None:
            self._sketch = sketch(self.text)
        return self._sketch

    def __len__(self) -> int:
        return len(self.text) + len(self.ids)


class Bases:
    """The recent traces of one session that a new one may be like: about one for each branch of it."""

    __slots__ = ("_bytes", "_recent")

    def __init__(self, recent: Iterable[Base] = ()) -> None:
        self._recent = {base.trace_id: base for base in recent}
        self._bytes = sum(map(len, self._recent.values()))

    def pick(self, payload: Payload, parent_trace_id: str | None) -> Base | None:
        """None where nothing is alike, or where the most alike stands too deep."""
        best = self._by_prefix(payload, parent_trace_id) or self._by_sketch(payload.text)
        return best if best is not None and best.depth < MAX_DEPTH else None

    def add(self, base: Base, extended: Base | None) -> None:
        """Know it from now on, instead of the one that it goes on from."""
        if extended is not None and _goes_on_from(extended.text, base.text):
            self._forget(extended.trace_id)
        self._forget(base.trace_id)
        self._recent[base.trace_id] = base
        self._bytes += len(base)
        while len(self._recent) > _MAX_CANDIDATES or (len(self._recent) > 1 and self._bytes > _MAX_BYTES):
            self._forget(next(iter(self._recent)))

    def get(self, trace_id: str | None) -> Base | None:
        return None if trace_id is None else self._recent.get(trace_id)

    def __iter__(self) -> Iterator[Base]:
        return iter(self._recent.values())

    def __contains__(self, trace_id: str) -> bool:
        return trace_id in self._recent

    def _by_prefix(self, payload: Payload, parent_trace_id: str | None) -> Base | None:
        """Cheap, and right for a conversation that grows; by its ids also where each body begins otherwise."""
        for base in self._likely_first(parent_trace_id):
            if begin_alike(payload.text, base.text) or begin_alike(payload.ids, base.ids):
                return base
        return None

    def _by_sketch(self, text: bytes) -> Base | None:
        """For a history that was rendered anew, or whose first lines change with each call."""
        if not self._recent:
            return None
        own = sketch(text)
        likeness, best = max(
            ((shared(own, base.sketch), base) for base in self._likely_first(None)), key=lambda scored: scored[0]
        )
        return best if likeness > len(own) * _LEAST_LIKENESS else None

    def _likely_first(self, parent_trace_id: str | None) -> Iterator[Base]:
        parent = self._recent.get(parent_trace_id) if parent_trace_id is not None else None
        if parent is not None:
            yield parent
        yield from (base for base in reversed(self._recent.values()) if base is not parent)

    def _forget(self, trace_id: str) -> None:
        forgotten = self._recent.pop(trace_id, None)
        self._bytes -= len(forgotten) if forgotten is not None else 0

    def __len__(self) -> int:
        """In bytes."""
        return self._bytes


def _goes_on_from(extended: bytes, text: bytes) -> bool:
    return text.startswith(extended[: len(extended) // 2 + 1])
