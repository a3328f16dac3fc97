"""What requests are read into: models that refuse what they do not know, and the values that several have."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, get_args

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from adapters.schema import EndedStatus
from gateway.settings.errors import unknown

_DEEPEST: Final = 64
_LARGEST_INT: Final = 2**63 - 1
# A `+` that was not percent-encoded in a query is a space by the time it gets here.
_LOST_PLUS: Final = re.compile(r"(T[\d:.]+) (\d\d:?\d\d)$")


class Strict(BaseModel):
    """A field that does not exist is an error that names the nearest one that does."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _no_unknown_field(cls, values: object) -> object:
        if isinstance(values, Mapping):
            wrong = [str(name) for name in values if name not in cls.model_fields]
            if wrong:
                sentences = "; ".join(unknown(repr(name), name, cls.model_fields) for name in wrong[:5])
                raise PydanticCustomError("unknown_field", "{sentences}", {"sentences": sentences})
        return values


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """Refuses what JSON can say and a database or another JSON parser can't keep."""
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        below: list[object] = []
        for each in level:
            if isinstance(each, dict):
                below += each.keys()
                below += each.values()
            elif isinstance(each, list):
                below += each
            elif isinstance(each, float) and not math.isfinite(each):
                raise ValueError("NaN and infinite numbers are not JSON")
            elif isinstance(each, int) and abs(each) > _LARGEST_INT:
                raise ValueError("a whole number has more than 64 bits: send it as a string")
            elif isinstance(each, str) and not _encodable(each):
                raise ValueError("a string has half of a surrogate pair in it")
        level = below
        if not level:
            return value
    raise ValueError(f"nested deeper than {_DEEPEST} levels")


def separated(told: object) -> object:
    """`status=finished,failed` is `status=finished&status=failed`."""
    parts = [told] if isinstance(told, str) else told
    if not isinstance(parts, list | tuple):
        return told
    return tuple(name.strip() for part in parts for name in str(part).split(","))


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("too far from the present") from exc


def _restore_plus(value: object) -> object:
    return _LOST_PLUS.sub(r"\1+\2", value) if isinstance(value, str) else value


JsonObject = Annotated[dict[str, Any], AfterValidator(_plain)]
Timestamp = Annotated[AwareDatetime, BeforeValidator(_restore_plus), AfterValidator(_in_utc)]
"""An instant with its zone, e.g. `2026-11-20T08:00:00Z`."""
Label = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
Statuses = Annotated[
    tuple[EndedStatus, ...],
    BeforeValidator(separated),
    Field(min_length=1),
    WithJsonSchema({"type": "array", "minItems": 1, "items": {"type": "string", "enum": list(get_args(EndedStatus))}}),
]
GroupSize = Annotated[int, Field(ge=1, le=2**31 - 1)]
RunId = Annotated[str, Field(max_length=256)]
"""Empty: of no run."""
Whole = Annotated[int, Field(ge=0, le=2**31 - 1)]
Limit = Annotated[int, Field(ge=1, le=1000)]
Wait = Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)]
"""How many seconds to wait for an empty list to have something."""
Cursor = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
