"""What the drift report says: of each call whether it goes on token for token, and of each break where and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from adapters.token_ids import TokenIds

Cause = Literal[
    "stripped_reasoning",
    "reserialised_tool_arguments",
    "whitespace",
    "retokenized",
    "system_prompt_changed",
    "message_edited",
    "message_dropped",
    "truncation",
    "unknown",
]
CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)
"""docs/drift.md says what each means, and what its owner does about it."""

Region = Literal["prompt", "boundary", "sampled"]
"""Where in the earlier call the break is: inside its prompt, at its first sampled token, or after that."""

Continuity = Literal["starts", "extends", "breaks", "unjudged"]
"""A call starts a conversation, extends an earlier call token for token, or breaks with the one that it repeats.

Unjudged is one whose own ids, or those of the call that it repeats, are not exact.
"""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two sequences around a break."""

    token_ids: TokenIds
    """From the break's `window_start` on."""
    text: str | None
    """What stands around the break: of these ids where a tokenizer is known, else from the recorded messages."""
    differing: int | None
    """How many ids from the break on until both sides are alike again; null where they are not."""


@dataclass(frozen=True, slots=True)
class Break:
    """A prompt that almost extends an earlier call's prompt and sampled ids."""

    trace_id: str
    turn: int | None
    earlier_trace_id: str
    earlier_turn: int | None
    earlier_index: int
    """The choice that should have been extended."""
    position: int
    """How many ids are alike: the first that differs has this index in both."""
    region: Region
    cause: Cause
    """The likely one."""
    detail: str
    """A sentence for a person."""
    window_start: int
    earlier: Side
    later: Side
    text_source: Literal["tokenizer", "record"]


@dataclass(frozen=True, slots=True)
class CallDrift:
    """One call of a session."""

    trace_id: str
    turn: int | None
    agent: str | None
    """The program."""
    continuity: Continuity
    agent_id: str | None = None
    """Which of its agents called, by its own id."""
    earlier_trace_id: str | None = None
    """The call that it extends or breaks with."""
    broken: Break | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many calls there are of each continuity, and how many breaks of each cause that there is."""

    calls: int
    starts: int
    extends: int
    breaks: int
    unjudged: int
    exact_share: float | None
    """Of the calls that had something to extend, how many do; null where none had."""
    causes: Mapping[Cause, int]
    """The most frequent first."""


@dataclass(frozen=True, slots=True)
class SessionDrift:
    session_id: str
    run_id: str | None
    counts: Counts
    calls: tuple[CallDrift, ...]
    """In the order of their turns; without `aux` calls, superseded retries and calls that still run."""

    @property
    def breaks(self) -> tuple[Break, ...]:
        return tuple(call.broken for call in self.calls if call.broken is not None)


@dataclass(frozen=True, slots=True)
class Example:
    """One break of a cause, to look at."""

    session_id: str
    broken: Break


@dataclass(frozen=True, slots=True)
class AgentDrift:
    """The calls that one agent made in one run."""

    run_id: str | None
    agent: str | None
    """Null where nobody said who called."""
    sessions: int
    counts: Counts
    examples: Mapping[Cause, Example]
    """The first of each cause that there is."""
