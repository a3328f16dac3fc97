"""What each route needs: told where the route is, checked before its handler, shown in `/openapi.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Request, params
from fastapi.routing import APIRoute

from gateway.keys import Caller
from storage.scopes import Scope

CALLER: Final = "rollout_gateway.caller"
"""Where the edge leaves it in a request's ASGI scope."""


@dataclass(frozen=True, slots=True)
class Needs:
    """A dependency that lets in who has the scope."""

    scope: Scope

    async def __call__(self, request: Request) -> None:
        """Raises Forbidden."""
        (await caller_of(request)).check(self.scope)


def needs(scope: Scope) -> params.Depends:
    """For the `dependencies` of a route, or of a router where all its routes need the same."""
    dependency: params.Depends = Depends(Needs(scope))
    return dependency


def scope_of(route: APIRoute) -> Scope:
    """Raises RouteWithoutScope."""
    told = [each.dependency.scope for each in route.dependencies if isinstance(each.dependency, Needs)]
    if len(told) != 1:
        raise RouteWithoutScope(route.path, len(told))
    return told[0]


class RouteWithoutScope(Exception):
    """A defect: nobody has said who may use this route, or two have."""

    def __init__(self, path: str, told: int) -> None:
        super().__init__(
            f"{path} needs one scope and has {told}: say `dependencies=[needs(...)]` there or at its router"
        )


async def caller_of(request: Request) -> Caller:
    # Async, for FastAPI runs a plain function in a thread.
    caller = request.scope[CALLER]
    assert isinstance(caller, Caller)
    return caller


AskedBy = Annotated[Caller, Depends(caller_of)]
