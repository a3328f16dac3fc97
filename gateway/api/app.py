"""Puts `/api` together: the routers, one answer to every error, the guard in front."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Mount

from gateway.api import (
    admin,
    agents,
    audit,
    backends,
    claims,
    drift,
    export,
    groups,
    keys,
    pauses,
    rewards,
    samples,
    sessions,
    storage,
    traces,
    weights,
)
from gateway.api.auditing import Auditor
from gateway.api.auth import Guard
from gateway.api.edge import Edge
from gateway.api.parts import ApiParts
from gateway.api.scoped import scope_of
from gateway.refusals import NotFound
from gateway.version import gateway_version

_ROUTERS: Final = (
    sessions.router,
    agents.router,
    traces.router,
    samples.router,
    export.router,
    rewards.router,
    groups.router,
    claims.router,
    drift.router,
    admin.router,
    backends.router,
    storage.router,
    keys.router,
    audit.router,
    pauses.router,
    weights.router,
)


def create_api(parts: ApiParts) -> FastAPI:
    """The application that is mounted at `/api`. It has no lifespan: what it is given is open already."""
    app = FastAPI(
        title="rollout-gateway",
        version=gateway_version(),
        # As they are: of a router that is included FastAPI makes each route anew at the first request that it gets.
        routes=[*routes()],
        openapi_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _to_the_edge, RequestValidationError: _to_the_edge},
    )
    app.state.parts = parts
    for route in routes():
        scope_of(route)  # Raises: better no gateway than one with a route that anyone may use.
    guard = Guard(callers=parts.callers, sessions=parts.sessions, listens_on=parts.settings.listens_on)
    app.add_middleware(Edge, guard=guard, auditor=Auditor(parts.audit, parts.gateway_id))
    return app


def routes() -> list[APIRoute]:
    """All of `/api`, without that prefix."""
    return [route for router in _ROUTERS for route in router.routes if isinstance(route, APIRoute)]


def mounted(api: FastAPI) -> Mount:
    """At `/api`, also for a path with a line end in it: Starlette's pattern leaves that to the application above."""
    mount = Mount("/api", api)
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return mount


async def _to_the_edge(request: Request, exc: Exception) -> NoReturn:
    """FastAPI's own handlers answer in another shape; the edge has one place for all errors."""
    path = request.scope["path"]
    if isinstance(exc, HTTPException) and exc.status_code == 404:
        raise NotFound(f"There is nothing at {path}; /docs says what there is.") from exc
    if isinstance(exc, HTTPException) and exc.status_code == 405:
        # Starlette's own `allow` names the methods of the first route of this path alone.
        allowed = ", ".join(_methods(path.removeprefix(request.scope.get("root_path", ""))))
        raise HTTPException(405, f"{path} takes {allowed}, not {request.method}.", {"allow": allowed}) from exc
    raise exc


def _methods(path: str) -> list[str]:
    """The methods that a path has."""
    return sorted({method for route in routes() if route.path_regex.match(path) for method in route.methods or ()})
