"""An answer with its top levels open: a chunk of a stream, and a whole answer, whichever way it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Raw

from adapters.raw import Fields, told
from adapters.schema import Error
from adapters.tables import Read

_NOTHING: Final[Mapping[str, Raw]] = {}


class ChunkChoice(msgspec.Struct, frozen=True, gc=False):
    """What one chunk says of one choice. A Struct, for one is made per token."""

    index: int
    fields: Fields
    """As they stand in the chunk, the delta closed."""
    delta: Fields | None = None
    beside: Mapping[str, Raw] = _NOTHING
    """What the engine says of this choice elsewhere in the chunk: folded with the choice, but not a part of it."""


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """One event of a stream, opened."""

    root: Fields
    choices: tuple[ChunkChoice, ...] = ()
    error: Error | None = None
    odd: tuple[str, ...] = ()
    """What was odd in it."""


class ToolFragment(msgspec.Struct, frozen=True, gc=False):
    """A piece of one tool call as a chunk gives it."""

    position: int | None = None
    """The engine's own index; null where it gives none."""
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


class Delta(msgspec.Struct, frozen=True, gc=False):
    """What one chunk adds to one choice, for whoever speaks another dialect. A Struct, for one is made per token."""

    index: int
    text: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolFragment, ...] = ()
    token_ids: Raw | None = None
    """The JSON list of the ids that this chunk adds, where they stand with the choice."""
    logprobs: Raw | None = None
    """The `logprobs` of this choice, in the engine's own shape."""
    finish_reason: str | None = None
    stop_reason: str | int | None = None


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """An answer as an engine that does not stream would have given it: what a body is, and what chunks fold into."""

    root: Mapping[str, Raw]
    """With `choices` in its place, closed."""
    choices: tuple[Mapping[str, Raw], ...] = ()
    """As they stand, or in a stream's case as they would have stood."""
    beside: tuple[Mapping[str, Raw], ...] = ()
    """What the engine said of each choice elsewhere; empty when nothing."""
    error: Error | None = None
    anomalies: tuple[str, ...] = ()
    body: bytes | None = None
    """The bytes that this was read from, where it came whole."""
    read: Mapping[str, Read] = field(default_factory=dict)
    """By its name, a member of a choice that was read already."""

    def of_choice(self, position: int) -> Mapping[str, Raw]:
        """All that was said of one choice, wherever it stood."""
        fields = self.choices[position]
        if position < len(self.beside) and self.beside[position]:
            return {**self.beside[position], **{key: raw for key, raw in fields.items() if told(raw)}}
        return fields
