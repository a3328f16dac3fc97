"""Ages as people write them: `30d`, `12h`, `90m`."""

from __future__ import annotations

import re
from typing import Final

from gateway.commands.errors import WrongUse

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AGE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])")


def seconds_of(age: str) -> float:
    """Raises WrongUse."""
    read = _AGE.fullmatch(age.strip())
    if read is None:
        raise WrongUse(f"{age!r} is no age: write for instance 30d, 12h or 90m")
    return float(read[1]) * _SECONDS[read[2]]
