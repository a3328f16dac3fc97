"""A row: what a sample or a trace is to whoever reads it, under names of theirs."""

from __future__ import annotations

from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
"""Plain values, numpy arrays, and further rows; `writers` has their bytes."""
