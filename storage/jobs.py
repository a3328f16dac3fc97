"""What the writer is given to do. Each job knows its size, when it came, and who waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from sqlalchemy import Connection

from adapters.schema import Session, Trace
from storage.waiters import deliver

Result = TypeVar("Result")

_ROW_BYTES = 1024
_FLOAT_BYTES = 32
_ID_BYTES = 4


@dataclass(slots=True, eq=False)
class _Job:
    size: int
    """Bytes of memory that it holds, about."""
    queued_at: float = field(default_factory=time.monotonic, init=False)
    settled: bool = field(default=False, init=False)
    """Whether the writer has done with it. For the event loop."""
    withdrawn: bool = field(default=False, init=False)
    """Whether the spool has it instead, so that the writer leaves it where it has not begun with it."""


@dataclass(slots=True, eq=False)
class Begin(_Job):
    """A call's `running` row, with its session's where that is new."""

    trace: Trace
    session: Session | None
    again: bool = False
    """It may have been written before, or its call's end: it comes out of a spool."""

    @property
    def session_id(self) -> str:
        return self.trace.session_id


@dataclass(slots=True, eq=False)
class Finish(_Job):
    """A call's final row, with its session's where that may not have been written yet. Nobody may be left who waits."""

    trace: Trace
    waiter: asyncio.Future[None] | None
    session: Session | None = None
    timer: asyncio.TimerHandle | None = field(default=None, init=False)
    """By which it has to be safe in the place that has it. For the event loop."""

    @property
    def session_id(self) -> str:
        return self.trace.session_id


@dataclass(slots=True, eq=False)
class Pin(_Job):
    """The backend of a session, where it has none, or the one that is to be replaced: others may have been first."""

    session_id: str
    backend: str
    instead_of: str | None = None


@dataclass(slots=True, eq=False)
class Command(_Job, Generic[Result]):
    """Anything else, in a transaction of its own; its result or error goes to who waits."""

    run: Callable[[Connection], Result]
    waiter: asyncio.Future[Result]
    session_id: str | None

    def execute(self, db: Connection) -> Callable[[], None]:
        """Run it, and give what delivers its result."""
        return partial(deliver, self.waiter, self.run(db))


Record: TypeAlias = Begin | Finish | Pin
"""Jobs that share a transaction."""

Job: TypeAlias = Record | Command[Any]


def begin_size(trace: Trace) -> int:
    return _ROW_BYTES + len(trace.request.body or b"")


def finish_size(trace: Trace) -> int:
    size = _ROW_BYTES + len(trace.request.body or b"") + _id_bytes(trace)
    for choice in trace.choices:
        size += _FLOAT_BYTES * len(choice.logprobs or ()) + len(choice.text or "") + len(choice.reasoning or "")
        size += len(choice.routed_experts.data) if choice.routed_experts is not None else 0
    return size


def _id_bytes(trace: Trace) -> int:
    lists = [trace.prompt_token_ids]
    for choice in trace.choices:
        lists += (choice.token_ids, choice.prompt_token_ids)
    return sum(_ID_BYTES * len(ids) for ids in lists if ids is not None)
