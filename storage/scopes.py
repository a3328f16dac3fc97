"""What a key may do: each scope is one kind of work, and none implies another."""

from __future__ import annotations

from typing import Final, Literal, get_args

Scope = Literal["infer", "session:write", "trace:read", "reward:write", "admin"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
