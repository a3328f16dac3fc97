"""What an acknowledged write survives, as a level that each place for records has in its own words."""

from __future__ import annotations

from typing import Final, Literal, get_args

Durability = Literal["power", "process", "none"]
"""`power`: the machine's loss of power. `process`: the death of this process or PostgreSQL's. `none`: a clean end."""

DURABILITIES: Final[tuple[Durability, ...]] = get_args(Durability)
DEFAULT_DURABILITY: Final[Durability] = "process"
