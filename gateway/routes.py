"""Routes outside `/api`, each with what it needs; a route that does not say so has no place in the router."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from storage.scopes import Scope

Access: TypeAlias = Scope | Literal["open"]
"""The scope that a route needs; `open`: none, nor a key."""


PageEndpoint: TypeAlias = ASGIApp | Callable[[Request], Awaitable[Response]]


class CallRoute(Route):
    """An endpoint of the agents' plane. Its session's resolution sees to the key."""

    needs: Final = "infer"

    def __init__(self, path: str, endpoint: ASGIApp, method: str) -> None:
        # The endpoint itself says no to other methods, in its dialect's form.
        super().__init__(path, endpoint)
        self.path_regex = _exact(self.path_regex)
        self.takes = method


class Page(Route):
    """What everyone may read, or who has a scope: then its endpoint sees to that.

    `inward`: at the administrators' own listener alone, where there is one.
    """

    takes = "GET"

    def __init__(self, path: str, endpoint: PageEndpoint, *, needs: Access = "open", inward: bool = False) -> None:
        super().__init__(path, endpoint)
        self.path_regex = _exact(self.path_regex)
        self.needs = needs
        self.inward = inward


def _exact(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """Python's `$`, with which Starlette's patterns end, matches before a line end too."""
    return re.compile(pattern.pattern.removesuffix("$") + r"\Z")


@dataclass(frozen=True, slots=True)
class Door:
    method: str
    path: str
    needs: Access
    for_agents: bool
    """Whether it is at the agents' listener where administration has its own."""
    for_administrators: bool
    """The same of the administrators'."""
