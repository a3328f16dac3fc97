"""What to send to a backend for one call, and what of its answer is not the agent's."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from adapters.request import CanonicalRequest
from adapters.schema import PlanMode
from adapters.server import Server


@dataclass(frozen=True, slots=True)
class Strip:
    """The fields that the plan's own flags bring and the agent did not ask for. Everything else passes untouched."""

    root: frozenset[str] = frozenset()
    """Keys of the answer's (or chunk's) root."""
    nested: tuple[tuple[str, frozenset[str]], ...] = ()
    """`(root key, keys inside it)`; the root key goes too when nothing is left in it."""
    choice: frozenset[str] = frozenset()
    """Keys of each choice."""
    nulled: frozenset[str] = frozenset()
    """Keys of each choice that the engine always sends: null is what they are without our flags."""
    delta: frozenset[str] = frozenset()
    """Keys of each choice's `delta` or `message`."""
    events: frozenset[str] = frozenset()
    """Named server-sent events that are dropped whole."""
    usage: bool = False
    """Drop usage from chunks, and the chunk that has nothing else (the agent did not ask `include_usage`)."""
    top_logprobs: bool = False
    """Empty the `top_logprobs` of each logprob entry: they were asked for by us alone."""

    def __or__(self, other: Strip) -> Strip:
        """What either takes out."""
        if self is NOTHING:
            return other
        nested = dict(self.nested)
        for key, inner in other.nested:
            nested[key] = nested.get(key, frozenset()) | inner
        return Strip(
            root=self.root | other.root,
            nested=tuple(nested.items()),
            choice=self.choice | other.choice,
            nulled=self.nulled | other.nulled,
            delta=self.delta | other.delta,
            events=self.events | other.events,
            usage=self.usage or other.usage,
            top_logprobs=self.top_logprobs or other.top_logprobs,
        )


NOTHING: Final = Strip()


@dataclass(frozen=True, slots=True)
class Plan:
    """One call as it goes upstream. `path` is the adapter's, never the caller's."""

    mode: PlanMode
    """`streamed`: the backend streams. `buffered`: it answers whole, the dialect streams. `whole`: the agent
    gets one body, and where `body` asks for a stream all the same, its chunks are folded into that."""
    path: str
    body: bytes
    server: Server
    request: CanonicalRequest
    strip: Strip = NOTHING
    logprobs_asked: bool = False
    """Whether logprobs were asked of the backend, by whomever."""
    inject_token_ids: bool = False
    """The agent asked `return_token_ids` of an engine that has other places: put them at vLLM's."""
    reason: str | None = None
    """Why this mode, where the agent's own wish would have been another."""
    without_ids: str | None = None
    """Why no token ids can come of it, where the server has none to give to such a call."""
    left_out: Set[str] = frozenset()
    """The agent's own fields that are not sent."""
