"""Where rows go: a folder for each run and each day of it, named as Hive names them, so that readers know both."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from urllib.parse import quote

NO_RUN: Final = "__HIVE_DEFAULT_PARTITION__"
"""What Hive, Spark, DuckDB and Arrow read as null."""
_LONGEST: Final = 200
"""Bytes: file systems take 255 in a name."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A run's, or no run's, of one day (UTC)."""

    run_id: str | None
    day: date

    @property
    def folder(self) -> str:
        return f"run={path_segment(self.run_id)}/day={self.day.isoformat()}"

    def filters(self, since: datetime | None = None, until: datetime | None = None) -> dict[str, str]:
        """Those of `/api/export` that find just its rows, within bounds that were asked for."""
        begin = datetime.combine(self.day, time(), UTC)
        end = begin + timedelta(days=1)
        return {
            "run_id": self.run_id or "",  # Empty: of no run.
            "since": max(begin, since or begin).isoformat(),
            "until": min(end, until or end).isoformat(),
        }


def path_segment(run_id: str | None) -> str:
    """A run's name as a part of a path: percent-encoded, so that it comes back; cut, with a digest, where too long."""
    if run_id is None:
        return NO_RUN
    if run_id == NO_RUN:
        return "%5F" + run_id[1:]
    name = run_id
    while len(segment := quote(name, safe="")) > _LONGEST:
        name = name[:-1]
    if name == run_id:
        return segment
    return f"{segment}-{hashlib.sha256(run_id.encode()).hexdigest()[:16]}"


def days(begin: datetime, end: datetime) -> list[date]:
    """Each day (UTC) from the one to the other."""
    first, last = begin.astimezone(UTC).date(), end.astimezone(UTC).date()
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]
