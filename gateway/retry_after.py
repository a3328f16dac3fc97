"""When a server that refused a call says to come back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Final

BUSY: Final = frozenset({429, 503})
_LEAST: Final = 0.1
"""Seconds: «at once» from a server that is busy would be asked in a circle."""


def seconds_to_wait(status: int, headers: Mapping[str, str], now: datetime) -> float | None:
    """None where it says nothing that can be followed. Header names are in lower case."""
    if status not in BUSY or headers.get("x-should-retry") == "false":
        return None
    seconds = _number(headers.get("retry-after-ms"))
    if seconds is not None:
        return max(_LEAST, seconds / 1000)
    told = headers.get("retry-after")
    seconds = _number(told)
    if seconds is None and told is not None:
        seconds = _until(told, now)
    return None if seconds is None else max(_LEAST, seconds)


def _number(told: str | None) -> float | None:
    try:
        seconds = float(told) if told is not None else None
    except ValueError:
        return None
    return seconds if seconds is not None and isfinite(seconds) else None


def _until(told: str, now: datetime) -> float | None:
    """A date of HTTP, which is always in Greenwich's time."""
    try:
        instant = parsedate_to_datetime(told)
    except ValueError:
        return None
    return (instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)).timestamp() - now.timestamp()
