"""The ids that a client is given: each leads to the trace, which any gateway of the database can read."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["rs", "msg", "fc", "ctc"]
"""A thought, a text, a function's call, a custom tool's."""

_RESPONSE: Final = re.compile(r"resp_([0-9a-f]{32})")
_ITEM: Final = re.compile(r"(rs|msg|fc|ctc)_([0-9a-f]{32})_([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class ItemName:
    """The `number`th item of its kind in an answer."""

    kind: str
    trace_id: str
    number: int


def response_id(trace_id: str) -> str:
    return f"resp_{_short(trace_id)}"


def item_id(kind: Kind, trace_id: str, number: int) -> str:
    return f"{kind}_{_short(trace_id)}_{number}"


def call_id(told: str | None, trace_id: str, number: int, taken: Collection[str]) -> str:
    """The engine's own id of a call, which some templates want back. Where it told none, or one that another call of
    the answer has (a client would take them for one), the same is made each time that it is asked for."""
    return told if told and told not in taken else f"call_{_short(trace_id)}_{number}"


def trace_of(response: str) -> str | None:
    """The trace of a response's id; None for an id that is none of ours."""
    found = _RESPONSE.fullmatch(response)
    return str(uuid.UUID(found[1])) if found else None


def item_of(name: str) -> ItemName | None:
    found = _ITEM.fullmatch(name)
    return ItemName(found[1], str(uuid.UUID(found[2])), int(found[3])) if found else None


def _short(trace_id: str) -> str:
    return trace_id.replace("-", "")
