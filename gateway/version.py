"""Which version of this program runs."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version


@cache
def gateway_version() -> str:
    return version("rollout-gateway")
