"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Result = Literal["pass", "fail", "can't"]


@dataclass(frozen=True, slots=True)
class Finding:
    result: Result
    reason: str


def passed(reason: str) -> Finding:
    return Finding("pass", reason)


def failed(reason: str) -> Finding:
    return Finding("fail", reason)


def cannot(reason: str) -> Finding:
    """The server can't do what is checked, or nobody can tell; which is no failure."""
    return Finding("can't", reason)
