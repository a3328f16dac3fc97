"""Which partitions an export may have: found in the list of sessions, which is small beside what they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Final
from urllib.parse import quote

import msgspec

from gateway.commands.exporting.asked import Asked
from gateway.commands.exporting.partition import Partition, days
from gateway.commands.remote import Page, Remote

_PAGE: Final = "1000"


class _Session(msgspec.Struct):
    """What tells a session's partitions."""

    session_id: str
    status: str
    created_at: datetime
    finished_at: datetime | None = None
    run_id: str | None = None


def partitions_of(remote: Remote, asked: Asked) -> Counter[Partition]:
    """Those that may have rows, with how many sessions each has at most. Raises CannotRead."""
    found: Counter[Partition] = Counter()
    for session in _sessions(remote, asked):
        found.update(Partition(session.run_id, day) for day in _days(session, asked))
    return found


def _days(session: _Session, asked: Asked) -> Sequence[date]:
    """On which it may have rows: a sample's day is the end of its session, a trace's its own beginning."""
    if asked.of == "traces":
        found = days(session.created_at, session.finished_at or datetime.now(UTC))
    elif session.status in asked.statuses and session.finished_at is not None:
        found = days(session.finished_at, session.finished_at)
    else:
        found = []
    return [day for day in found if asked.within(day)]


def _sessions(remote: Remote, asked: Asked) -> Iterator[_Session]:
    session_id = asked.filters.get("session_id")
    if session_id is not None:
        yield remote.read(f"/api/sessions/{quote(session_id, safe='')}", {}, _Session)
        return
    filters = {"limit": _PAGE} | {name: asked.filters[name] for name in ("run_id", "group_id") if name in asked.filters}
    while True:
        page = remote.read("/api/sessions", filters, Page[_Session])
        yield from page.items
        if page.next is None:
            return
        filters["cursor"] = page.next
