"""The router of everything, and the table that it yields: each route, what it needs, at which listener it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastapi import FastAPI
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.api.app import mounted, routes
from gateway.api.edge import ADMINISTRATION_ELSEWHERE
from gateway.api.scoped import scope_of
from gateway.request_id import WithRequestId
from gateway.routes import CallRoute, Door, Page


class Planes:
    """The agents' plane, `/api` and the pages, at one listener or at two."""

    def __init__(
        self,
        *,
        calls: Sequence[CallRoute],
        api: FastAPI,
        pages: Sequence[Page],
        otherwise: ASGIApp,
        admin_port: int | None,
    ) -> None:
        """`otherwise` answers to what is no route."""
        self._calls = calls
        self._pages = pages
        self._admin_port = admin_port
        mount = mounted(api)

        def router(calls: Sequence[CallRoute], pages: Iterable[Page]) -> Router:
            others = WithRequestId(Router([*pages], redirect_slashes=False, default=otherwise))
            return Router([*calls, mount], redirect_slashes=False, default=others)

        apart = admin_port is not None
        self._for_agents = router(calls, [page for page in pages if not (apart and page.inward)])
        self._for_administrators = router([], pages)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._admin_port is None:
            await self._for_agents(scope, receive, send)
        elif scope["server"][1] == self._admin_port:
            await self._for_administrators(scope, receive, send)
        else:
            scope[ADMINISTRATION_ELSEWHERE] = True
            await self._for_agents(scope, receive, send)

    def doors(self) -> list[Door]:
        """Every route with each of its methods. Raises RouteWithoutScope."""
        doors = [Door(route.takes, route.path, route.needs, True, False) for route in self._calls]
        doors += [Door(page.takes, page.path, page.needs, not page.inward, True) for page in self._pages]
        for route in routes():
            needed, path = scope_of(route), f"/api{route.path}"
            doors += [Door(method, path, needed, needed != "admin", True) for method in sorted(route.methods or ())]
        return doors
