"""What a session has used up, counted by the database in one look: no trace is read for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Select, and_, case, func, literal, select

from adapters.schema import Status, Trace
from storage import queries
from storage.tables import traces

COUNTED: Final[frozenset[Status]] = frozenset({"ok", "client_disconnected"})
"""A call that failed is not held against its session: its SDK asks again by itself."""

_MOST: Final = 2**31 - 1
"""That a column takes. Of no call can more be true, so what an engine counts beyond it is as good as not counted."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Of the calls of one attempt that have ended, and which of them run. `aux` and `rejected` ones are no steps."""

    calls: int = 0
    """Those that succeeded, or that their agent gave up."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    first_call_at: datetime | None = None
    running: frozenset[str] = frozenset()
    """Trace ids."""


def tokens_of(trace: Trace) -> tuple[int, int]:
    """Of the prompt and sampled: as counted, else as many as were told."""
    usage = trace.usage
    prompt = usage.prompt_tokens if usage is not None else None
    sampled = usage.completion_tokens if usage is not None else None
    if prompt is None or prompt > _MOST:
        prompt = len(trace.prompt_token_ids or ())
    if sampled is None or sampled > _MOST:
        sampled = sum(len(choice.token_ids or ()) for choice in trace.choices)
    return prompt, sampled


def columns(trace: Trace) -> dict[str, Any]:
    """What stands in the row of an ended call, to be summed up."""
    prompt, sampled = tokens_of(trace)
    return {"prompt_tokens": prompt, "completion_tokens": sampled}


def of_session(db: Connection, session_id: str, attempt: int) -> Usage:
    steps = _steps(session_id, attempt)
    told = db.execute(steps.with_only_columns(*_TOTALS)).one()
    prompt, sampled = told.prompt_tokens, told.completion_tokens
    if told.untold:
        # Recorded before rows had columns for it.
        for trace in _read(db, steps.where(_UNTOLD)):
            its_prompt, its_sampled = tokens_of(trace)
            prompt, sampled = prompt + its_prompt, sampled + its_sampled
    running: frozenset[str] = frozenset()
    if told.running:
        running = frozenset(db.scalars(steps.with_only_columns(traces.c.trace_id).where(_RUNS)))
    return Usage(told.calls, prompt, sampled, told.first_call_at, running)


def _steps(session_id: str, attempt: int) -> Select[Any]:
    c = traces.c
    return select(traces).where(
        c.session_id == session_id, c.attempt == attempt, c.purpose != "aux", c.status != "rejected"
    )


def _read(db: Connection, wanted: Select[Any]) -> Iterator[Trace]:
    return queries.read(db, wanted.order_by(traces.c.turn))


_RUNS: Final = traces.c.status == "running"
_UNTOLD: Final = and_(traces.c.completion_tokens.is_(None), traces.c.digest.is_not(None))
_TOTALS: Final = (
    func.coalesce(func.sum(case((traces.c.status.in_(sorted(COUNTED)), literal(1)), else_=0)), 0).label("calls"),
    func.coalesce(func.sum(traces.c.prompt_tokens), 0).label("prompt_tokens"),
    func.coalesce(func.sum(traces.c.completion_tokens), 0).label("completion_tokens"),
    func.coalesce(func.sum(case((_UNTOLD, literal(1)), else_=0)), 0).label("untold"),
    func.coalesce(func.sum(case((_RUNS, literal(1)), else_=0)), 0).label("running"),
    func.min(traces.c.started_at, type_=traces.c.started_at.type).label("first_call_at"),
)
