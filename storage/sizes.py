"""What the database takes on disk, and which run how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, func, select

from storage.prune import stored_bytes
from storage.tables import sessions, traces

PAGE: Final = 500
"""Sessions that are weighed in one transaction."""


@dataclass(frozen=True, slots=True)
class RunSize:
    run_id: str | None
    """Null: of no run."""
    sessions: int
    traces: int
    bytes: int
    """Of payloads as they are stored; some kilobyte a trace comes on top."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Some sessions, by run; `last` is where to go on, null at the end."""

    runs: Sequence[RunSize]
    last: str | None


def weigh(db: Connection, after: str | None, most: int = PAGE) -> Weighed:
    """The next sessions, in the order of their ids."""
    wanted = select(sessions.c.session_id, sessions.c.run_id).order_by(sessions.c.session_id).limit(most)
    if after is not None:
        wanted = wanted.where(sessions.c.session_id > after)
    some = wanted.subquery()
    by_run = (
        select(
            some.c.run_id,
            func.count(some.c.session_id.distinct()).label("sessions"),
            func.count(traces.c.trace_id).label("traces"),
            func.coalesce(func.sum(stored_bytes()), 0).label("bytes"),
        )
        .select_from(some.outerjoin(traces, traces.c.session_id == some.c.session_id))
        .group_by(some.c.run_id)
    )
    runs = [RunSize(row.run_id, row.sessions, row.traces, int(row.bytes)) for row in db.execute(by_run)]
    # The database says which is last: it may order words otherwise than we do.
    return Weighed(runs, db.scalar(select(func.max(some.c.session_id))))


def added(weighed: Sequence[RunSize]) -> tuple[RunSize, ...]:
    """One for each run, the largest first."""
    sums: dict[str | None, RunSize] = {}
    for one in weighed:
        so_far = sums.get(one.run_id, RunSize(one.run_id, 0, 0, 0))
        sums[one.run_id] = RunSize(
            one.run_id, so_far.sessions + one.sessions, so_far.traces + one.traces, so_far.bytes + one.bytes
        )
    return tuple(sorted(sums.values(), key=lambda run: run.bytes, reverse=True))
