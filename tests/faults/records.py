"""What is held against each other: what a backend said, what an agent got, what the database has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec

End = Literal["whole", "broken", "left"]
"""Of what an agent got: as HTTP says, cut by somebody else, or closed by the agent itself."""


@dataclass(slots=True)
class Emission:
    """One answer of a backend, written down before its bytes leave."""

    number: int
    serial: int
    """Of all answers of the run: a call that was tried twice has two."""
    prompt: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    weight_versions: tuple[tuple[str, int, int], ...] = ()
    """`(version, start, end)` over the ids; empty where the engine does not tell."""
    arrived: float = 0.0
    """On the monotonic clock, as the next."""
    closed: float | None = None
    """When its connection ended, or the answer did."""
    let_go: bool = False
    """Its caller closed the connection before it was whole."""
    told: int = 0
    """How many of the ids were in bytes handed to the connection. What comes next may be on its way."""
    backend: str = ""
    """Which gave it, where a run has several."""
    sound: bool = True
    """Its bytes are what an engine would have sent; false where the scenario makes it lie."""


@dataclass(slots=True)
class Heard:
    """One call as its agent saw it."""

    number: int
    session: str
    continues: int | None = None
    """The call whose answer its history ends with."""
    gateway: int = 0
    started: float = 0.0
    ended: float | None = None
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | bytearray = b""
    end: End = "broken"
    stream: bool = True
    dialect: str = "chat"

    @property
    def trace_id(self) -> str | None:
        return self.headers.get("x-trace-id")

    @property
    def seconds(self) -> float:
        assert self.ended is not None
        return self.ended - self.started


class Choice(msgspec.Struct, frozen=True):
    index: int
    token_ids: tuple[int, ...] | None
    logprobs: tuple[float | None, ...] | None
    text: str | None
    weight_versions: tuple[WeightSpan, ...] | None


class WeightSpan(msgspec.Struct, frozen=True):
    version: str
    start: int
    end: int


class Tried(msgspec.Struct, frozen=True):
    backend: str
    status: int | None
    error: str | None


class Row(msgspec.Struct, frozen=True):
    """A trace, as `/api/traces` tells it."""

    trace_id: str
    session_id: str
    turn: int | None
    request_id: str | None
    status: str
    started_at: str
    http_status: int | None = None
    parent_trace_id: str | None = None
    weight_version: str | None = None
    fidelity: str = "none"
    fidelity_reason: str | None = None
    logprobs_fidelity: str = "none"
    duration_ms: float | None = None
    gateway_id: str | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    choices: tuple[Choice, ...] = ()
    attempts: tuple[Tried, ...] = ()
    plan: str | None = None
    retry_of: str | None = None
    error: dict[str, str | int | None] | None = None

    @property
    def number(self) -> int:
        """Which call it says that it is of: agents send the number as `x-request-id`."""
        try:
            return int(self.request_id or "")
        except ValueError:
            return -1

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(token_id for choice in self.choices for token_id in choice.token_ids or ())

    @property
    def logprobs(self) -> tuple[float | None, ...]:
        return tuple(each for choice in self.choices for each in choice.logprobs or ())

    @property
    def text(self) -> str:
        return "".join(choice.text or "" for choice in self.choices)


FIELDS = ",".join(
    name
    if name != "choices"
    else "choices.index,choices.token_ids,choices.logprobs,choices.text,choices.weight_versions"
    for name in Row.__struct_fields__
)
"""What is asked of the API."""
