"""What an export is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final, Self, get_args

from adapters.schema import EndedStatus
from gateway.commands.errors import WrongUse

SUFFIXES: Final = {"parquet": ".parquet", "jsonl": ".jsonl", "arrow": ".arrows"}
_KINDS: Final = ("samples", "traces")
_ENDED: Final = get_args(EndedStatus)
_OURS: Final = ("of", "format", "since", "until", "limit", "cursor")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is exported. `filters` are those of `/api/export`, as text."""

    of: str = "samples"
    file_format: str = "parquet"
    filters: Mapping[str, str] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.of not in _KINDS:
            raise WrongUse(f"--of is {' or '.join(_KINDS)}, not {self.of}")
        if self.file_format not in SUFFIXES:
            raise WrongUse(f"--format is {', '.join(SUFFIXES)}, not {self.file_format}")
        # No session has a status that is mistyped, so the gateway would never be asked, and nothing be said.
        if self.of == "samples" and (wrong := [status for status in self.statuses if status not in _ENDED]):
            raise WrongUse(f"--status is {', '.join(_ENDED)}, not {', '.join(wrong)}")

    @classmethod
    def of_words(
        cls,
        of: str,
        file_format: str,
        filters: Mapping[str, str | None],
        where: Sequence[str],
        *,
        since: str | None,
        until: str | None,
    ) -> Self:
        """As a person wrote it. Raises WrongUse."""
        more = dict(_pair(pair) for pair in where)
        told = {name: value for name, value in filters.items() if value is not None}
        for name in more:
            if name in told or name in _OURS:
                raise WrongUse(f"--where {name}=…: an export has an option for it, or decides it by itself")
        return cls(of, file_format, told | more, _instant("since", since), _instant("until", until))

    @property
    def query(self) -> dict[str, str]:
        return {"of": self.of, "format": self.file_format, **self.filters}

    def told(self) -> dict[str, str]:
        """All of it, to know the same export again."""
        bounds = {"since": self.since, "until": self.until}
        return self.query | {name: bound.isoformat() for name, bound in bounds.items() if bound is not None}

    @property
    def statuses(self) -> list[str]:
        """Of the sessions whose samples are wanted."""
        return [status.strip() for status in self.filters.get("status", "finished").split(",")]

    def within(self, day: date) -> bool:
        """Whether something of that day (UTC) may be wanted."""
        after = self.since is None or day >= self.since.astimezone(UTC).date()
        return after and (self.until is None or day <= self.until.astimezone(UTC).date())


def _pair(told: str) -> tuple[str, str]:
    name, equals, value = told.partition("=")
    if not equals or not name:
        raise WrongUse(f"--where {told}: it is NAME=VALUE, as --where model=policy")
    return name, value


def _instant(name: str, told: str | None) -> datetime | None:
    """A date is its beginning; a time without a zone is UTC, as a day of the export is."""
    if told is None:
        return None
    try:
        instant = datetime.fromisoformat(told)
    except ValueError as exc:
        raise WrongUse(f"--{name} {told}: it is a date or a time, as 2026-11-20 or 2026-11-20T08:00:00Z") from exc
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
