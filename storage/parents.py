"""Which trace a prompt continues, token for token: the longest `prompt + sampled ids` of its session that begins it."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from adapters.schema import Trace
from adapters.token_ids import TokenIds
from storage import hashes

_DIGEST_SIZE: Final = 16
_ID_WIDTH: Final = 4
_PACKED: Final = struct.Struct(f"<II{_DIGEST_SIZE}s")


@dataclass(frozen=True, slots=True)
class End:
    """Where a choice ends: how many ids its prompt and its own are, and the digest of them all."""

    trace_id: str
    index: int
    end_len: int
    digest: bytes


def ends_of(trace: Trace) -> tuple[End, ...]:
    """One for each choice that a later prompt may continue. Only an exact trace is anybody's parent."""
    if trace.fidelity != "exact":
        return ()
    found: list[End] = []
    prompt_digest = hashes.sha256(bytes(trace.prompt_token_ids or TokenIds()))
    for choice in trace.choices:
        own = choice.prompt_token_ids
        prompt = trace.prompt_token_ids if own is None else own
        if prompt is None or not choice.token_ids:
            continue
        digest = prompt_digest.copy() if own is None else hashes.sha256(bytes(own))
        hashes.update(digest, bytes(choice.token_ids))
        end_len = len(prompt) + len(choice.token_ids)
        found.append(End(trace.trace_id, choice.index, end_len, digest.digest()[:_DIGEST_SIZE]))
    return tuple(found)


def pack(ends: Iterable[End]) -> bytes | None:
    """The ends of one trace as bytes; null where there are none."""
    return b"".join(_PACKED.pack(end.index, end.end_len, end.digest) for end in ends) or None


def unpack(trace_id: str, packed: bytes) -> Iterator[End]:
    return (End(trace_id, *fields) for fields in _PACKED.iter_unpack(packed))


class Ends:
    """The ends of one session, looked up in one pass over a prompt."""

    __slots__ = ("_by_digest", "_lengths")

    def __init__(self, known: Iterable[End] = ()) -> None:
        self._by_digest: dict[tuple[int, bytes], End] = {}
        self._lengths: list[int] = []
        for end in known:
            self.add(end)

    def add(self, end: End) -> None:
        """Of two equal ends the later is known: an agent that asks twice goes on from its second answer."""
        at = bisect_left(self._lengths, end.end_len)
        if at == len(self._lengths) or self._lengths[at] != end.end_len:
            self._lengths.insert(at, end.end_len)
        self._by_digest[end.end_len, end.digest] = end

    def parent_of(self, prompt: TokenIds | None) -> End | None:
        """The longest end that begins `prompt`. One pass: the running digest is taken at each known length."""
        if prompt is None or not self._lengths or self._lengths[0] > len(prompt):
            return None
        running = hashes.sha256()
        packed = memoryview(bytes(prompt))
        longest: End | None = None
        start = 0
        for length in self._lengths:
            if length > len(prompt):
                break
            hashes.update(running, packed[start * _ID_WIDTH : length * _ID_WIDTH])
            start = length
            longest = self._by_digest.get((length, running.copy().digest()[:_DIGEST_SIZE])) or longest
        return longest

    def __len__(self) -> int:
        return len(self._by_digest)
