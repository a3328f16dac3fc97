"""Every route with every kind of key, over HTTP, held against the one table that the router yields."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from gateway.api.app import routes
from gateway.api.scoped import RouteWithoutScope, needs, scope_of
from gateway.app import Gateway, create_app
from gateway.edge import AgentConnection, Doorway
from gateway.routes import Door
from gateway.scripted import ScriptedServer, listening, running
from gateway.settings import load
from storage.scopes import SCOPES
from tests.gateway.dialect_calls import ASKED

ADMIN: Final = "configured-admin"
AGENT: Final = "configured-agent"


@dataclass(frozen=True, slots=True)
class Served:
    gateway: Gateway
    http: httpx.AsyncClient
    keys: Mapping[str, str | None]
    """By what they are."""

    async def knock(self, door: Door, key: str | None) -> httpx.Response:
        # What is deleted is what there is not.
        path = door.path if door.method != "DELETE" else door.path.replace("{session_id}", "none")
        for name, value in _PARAMETERS.items():
            path = path.replace(name, value)
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        body = _body(door)
        return await self.http.request(door.method, path, headers=headers, json=body, follow_redirects=False)


_PARAMETERS: Final = {
    "{session_id}": "s1",
    "{trace_id}": "none",
    "{claim_id}": "none",
    "{name:path}": "none",
    "{key_id}": "none",
}


def _body(door: Door) -> Any:
    if door.method in ("GET", "HEAD", "DELETE"):
        return None
    # Nothing that any handler under /api takes: who is let in is told so with a 400, and nothing changes.
    dialect = door.path.removeprefix("/sessions/{session_id}")
    return ASKED.get(dialect, {"no such field": 1})


@asynccontextmanager
async def served(tmp_path: Path, **flags: Any) -> AsyncIterator[Served]:
    """With every kind of key that there is."""
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(running(ScriptedServer("vllm")))
        told: dict[str, Any] = {"keys": AGENT, "admin_key": ADMIN, "backends": (backend,), **flags}
        settings = load(environ={}, flags={"database": f"sqlite:///{tmp_path / 'rollouts.db'}", **told})
        gateway = create_app(settings)
        edge = partial(AgentConnection, doorway=Doorway(receive_timeout=30, max_connections=None))
        url = await stack.enter_async_context(listening(gateway, lifespan=True, connection=edge))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=30, trust_env=False))
        yield Served(gateway, http, await _keys(http))


async def _keys(http: httpx.AsyncClient) -> dict[str, str | None]:
    as_admin = {"x-api-key": ADMIN}

    async def made(name: str, **told: Any) -> dict[str, Any]:
        answer = await http.post("/api/admin/keys", json={"name": name, **told}, headers=as_admin)
        assert answer.status_code == 201, answer.text
        key: dict[str, Any] = answer.json()
        return key

    async def session(session_id: str) -> str:
        answer = await http.post("/api/sessions", json={"session_id": session_id}, headers=as_admin)
        key: str = answer.json()["key"]
        return key

    keys: dict[str, str | None] = {"none": None, "wrong": "rgk-made-up", "wrong session": "rgs-made-up"}
    keys |= {"configured agent": AGENT, "configured admin": ADMIN}
    keys |= {scope: (await made(scope, scopes=[scope]))["key"] for scope in SCOPES}
    keys["all scopes"] = (await made("all", scopes=list(SCOPES)))["key"]
    over = datetime.now(UTC) - timedelta(seconds=1)
    keys["expired"] = (await made("expired", scopes=list(SCOPES), expires_at=over.isoformat()))["key"]
    revoked = await made("revoked", scopes=list(SCOPES))
    await http.delete(f"/api/admin/keys/{revoked['key_id']}", headers=as_admin)
    keys["revoked"] = revoked["key"]
    keys["this session's"], keys["another session's"] = await session("s1"), await session("s2")
    return keys


UNKNOWN: Final = ("none", "wrong", "wrong session", "expired", "revoked")
SCOPES_OF: Final[Mapping[str, frozenset[str]]] = {
    **{name: frozenset() for name in UNKNOWN},
    "configured agent": frozenset({"infer"}),
    "configured admin": frozenset(SCOPES),
    "all scopes": frozenset(SCOPES),
    **{scope: frozenset({scope}) for scope in SCOPES},
}


def expected(door: Door, kind: str) -> str:
    """What the table says: `in`, 401 or 403."""
    if door.needs == "open":
        return "in"
    if kind.endswith("session's"):
        own = "{session_id}" not in door.path or kind == "this session's"
        return "in" if door.needs == "infer" and own else "403"
    if door.needs in SCOPES_OF[kind]:
        return "in"
    return "401" if kind in UNKNOWN else "403"


def happened(response: httpx.Response) -> str:
    return str(response.status_code) if response.status_code in (401, 403) else "in"


async def test_every_route_lets_in_whom_the_table_says_and_nobody_else(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        doors = gateway.gateway.doors()
        assert len(doors) > 40
        wrong = []
        for door in doors:
            for kind, key in gateway.keys.items():
                response = await gateway.knock(door, key)
                assert response.status_code < 500, (door, kind, response.text)
                if happened(response) != expected(door, kind):
                    wrong.append((door.method, door.path, kind, response.status_code))
        assert wrong == []
        # Nobody who was to be kept out has taken anything away either.
        assert (await gateway.http.get("/api/sessions/s2", headers={"x-api-key": ADMIN})).status_code == 200


async def test_an_agents_key_reaches_nothing_but_inference(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        for kind in ("configured agent", "infer", "this session's"):
            for door in gateway.gateway.doors():
                let_in = happened(await gateway.knock(door, gateway.keys[kind])) == "in"
                assert let_in == (door.needs in ("infer", "open")), (door, kind)


async def test_the_document_names_the_scope_of_every_route(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        document = (await gateway.http.get("/openapi.json")).json()
        for door in gateway.gateway.doors():
            if door.needs == "open":
                continue
            operation = document["paths"][door.path.replace(":path}", "}")][door.method.lower()]
            assert operation["security"] == [{"bearer": [door.needs]}, {"x-api-key": [door.needs]}, {}], door


def test_the_table_names_each_route_once_and_administration_has_one_place() -> None:
    seen = [(method, route.path) for route in routes() for method in route.methods or ()]
    assert len(seen) == len(set(seen))
    for route in routes():
        assert (scope_of(route) == "admin") == route.path.startswith("/admin/"), route.path


def test_a_route_that_does_not_say_what_it_needs_keeps_the_gateway_from_starting() -> None:
    router = APIRouter(dependencies=[needs("trace:read")])

    @router.get("/said")
    async def said() -> None: ...

    @router.get("/twice", dependencies=[needs("admin")])
    async def twice() -> None: ...

    silent = APIRouter()

    @silent.get("/silent")
    async def nothing() -> None: ...

    made = [route for each in (router, silent) for route in each.routes if isinstance(route, APIRoute)]
    assert scope_of(made[0]) == "trace:read"
    for route in made[1:]:
        with pytest.raises(RouteWithoutScope, match=route.path):
            scope_of(route)
