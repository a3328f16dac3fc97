"""Puts `/api` together: the routers, one answer to every error, the guard in front."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from gateway.api import admin, sessions, traces
from gateway.api.auth import Guard
from gateway.api.edge import Edge
from gateway.api.parts import ApiParts
from gateway.api.problem import MEDIA_TYPE, Problem
from gateway.version import gateway_version

_ANY_ERROR: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "model": Problem,
        "description": "An error, as RFC 9457 has it.",
        "content": {MEDIA_TYPE: {}},
    }
}


def create_api(parts: ApiParts) -> FastAPI:
    """The application that is mounted at `/api`. It has no lifespan: what it is given is open already."""
    settings = parts.settings
    app = FastAPI(
        title="rollout-gateway",
        version=gateway_version(),
        openapi_url=None,
        redirect_slashes=False,
        responses=_ANY_ERROR,
        exception_handlers={HTTPException: _to_the_edge, RequestValidationError: _to_the_edge},
    )
    app.state.parts = parts
    for router in (sessions.router, traces.router, admin.router):
        app.include_router(router)
    guard = Guard(
        admin_key=settings.admin_key.get_secret_value() if settings.admin_key is not None else None,
        infer_keys=[key.get_secret_value() for key in settings.keys],
        sessions=parts.sessions,
        listens_on=settings.host,
    )
    app.add_middleware(Edge, guard=guard)
    return app


async def _to_the_edge(_: Request, exc: Exception) -> NoReturn:
    """FastAPI's own handlers answer in another shape; the edge has one place for all errors."""
    raise exc
