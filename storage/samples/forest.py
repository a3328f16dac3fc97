"""Which call continues which, by the tokens alone: a node's parent is the longest `prompt + sampled ids` that its own
prompt begins with.

All prompts and ends are put in the order of their bytes. There everything that begins with an end follows it at once,
before anything that does not, so a stack of the ends that the last item began with is all that one pass needs. Nothing
is hashed and every parent has been compared byte for byte; comparing is memcmp, so time is linear in the tokens. The
parents that the traces name are not read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from adapters.schema import Trace
from adapters.token_ids import TokenIds
from storage.samples.node import Node, prompt_of

Path = tuple[Node, ...]
"""From a root to a leaf: each node's prompt begins with all of the node before it."""

# What an item is; of equal bytes the lower comes first, and so is seen by the later.
_END, _PROMPT, _LOST_PROMPT = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    nodes: tuple[Node, ...]
    parents: tuple[int | None, ...]
    """Of each node, the place of its parent in `nodes`; None for a root."""

    def paths(self) -> Iterator[Path]:
        """One a leaf. Branches are in the order of `nodes` wherever they part, so a call that goes on from the end
        of a path moves no other path."""
        children: list[list[int]] = [[] for _ in self.nodes]
        roots: list[int] = []
        for place, parent in enumerate(self.parents):
            (roots if parent is None else children[parent]).append(place)
        waiting = roots[::-1]
        while waiting:
            place = waiting.pop()
            waiting.extend(reversed(children[place]))
            if not children[place]:
                yield self._from_root_to(place)

    def _from_root_to(self, leaf: int) -> Path:
        path: list[Node] = []
        at: int | None = leaf
        while at is not None:
            path.append(self.nodes[at])
            at = self.parents[at]
        return tuple(reversed(path))


def forest_of(nodes: Sequence[Node], lost: Iterable[Trace] = ()) -> Forest:
    """`nodes` are in their order. A prompt that goes on from what is known of a lost call is a root."""
    items: list[tuple[bytes, int, int]] = []
    for place, node in enumerate(nodes):
        prompt = bytes(node.prompt)
        items.append((prompt, _PROMPT, place))
        items.append((prompt + bytes(node.token_ids), _END, place))
    items.extend((packed, kind, len(nodes)) for trace in lost for packed, kind in _ends_of_lost(trace))
    items.sort()
    return Forest(tuple(nodes), _parents(items, len(nodes)))


@dataclass(slots=True)
class _End:
    """Where one or more calls end, by the same tokens."""

    packed: bytes
    places: list[int] = field(default_factory=list)
    """Empty where all that end here are lost."""

    def parent_of(self, place: int) -> int | None:
        """Of equal ends the last before it: an agent that asks twice goes on from its second answer."""
        if not self.places:
            return None
        return self.places[max(bisect_left(self.places, place) - 1, 0)]


def _parents(items: list[tuple[bytes, int, int]], count: int) -> tuple[int | None, ...]:
    parents: list[int | None] = [None] * count
    begun: list[_End] = []
    for packed, kind, place in items:
        while begun and not packed.startswith(begun[-1].packed):
            begun.pop()
        if kind == _PROMPT:
            parents[place] = begun[-1].parent_of(place) if begun else None
            continue
        if not begun or len(begun[-1].packed) != len(packed):
            begun.append(_End(packed))
        if place < count:
            begun[-1].places.append(place)
    return tuple(parents)


def _ends_of_lost(trace: Trace) -> Iterator[tuple[bytes, int]]:
    """What is known of where its choices end. Where no sampled id is, a prompt has to go on from its prompt."""
    for choice in trace.choices:
        prompt = prompt_of(trace, choice)
        if prompt is not None:
            yield bytes(prompt) + bytes(choice.token_ids or TokenIds()), _END if choice.token_ids else _LOST_PROMPT
    if not trace.choices and trace.prompt_token_ids is not None:
        yield bytes(trace.prompt_token_ids), _LOST_PROMPT
