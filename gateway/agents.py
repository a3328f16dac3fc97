"""The agents' plane: the endpoints under `/v1`, with and without a session in the path, and nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.asgi import headers_of, send_whole
from gateway.count_tokens import CountTokensEndpoint
from gateway.dialects import openai_errors
from gateway.dialects.dialect import Dialect
from gateway.dialects.table import COUNTERS, ENDPOINTS
from gateway.intake import Intake
from gateway.proxy import Proxy, request_id_of
from gateway.refusals import MethodNotAllowed, NotFound, Refusal
from gateway.routes import CallRoute
from gateway.sessions import Sessions
from gateway.token_counter import TokenCounter
from storage.ids import new_id

# An agent's base_url is the gateway's own, or that of one session.
# The first match counts, and most calls name their session.
_PREFIXES = ("/sessions/{session_id}", "")
_MODELS = "/v1/models"


class AgentEndpoint:
    """One dialect's endpoint. A class, so that Starlette calls it as the ASGI application it is."""

    def __init__(self, proxy: Proxy, dialect: Dialect) -> None:
        self._proxy = proxy
        self._dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            refusal = MethodNotAllowed(f"{scope['path']} takes POST, not {scope['method']}.")
            request_id = request_id_of(headers_of(scope)) or new_id()
            body = self._dialect.error_body(refusal.status, refusal.error, request_id)
            await _send_json(scope, send, refusal.status, body, [("allow", "POST")], request_id)
            return
        await self._proxy.serve(self._dialect, scope, receive, send)


class ModelsEndpoint:
    """`GET /v1/models`: answered, and not recorded."""

    def __init__(self, sessions: Sessions, list_models: Callable[[], Awaitable[bytes]]) -> None:
        self._sessions = sessions
        self._list_models = list_models

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] not in ("GET", "HEAD"):
                raise MethodNotAllowed(f"{scope['path']} takes GET, not {scope['method']}.")
            await self._sessions.resolve(headers_of(scope), scope["path_params"].get("session_id"), new_id())
            await _send_json(scope, send, 200, await self._list_models())
        except Refusal as refusal:
            await refuse(scope, send, refusal)


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """What is no endpoint of ours reaches nothing, however its path is written."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
        return
    known = ", ".join([*ENDPOINTS, *COUNTERS, _MODELS, "/api", "/docs"])
    await refuse(scope, send, NotFound(f"There is nothing at {scope['path']}. There is {known}."))


async def refuse(scope: Scope, send: Send, refusal: Refusal) -> None:
    """An error where no dialect is known: in the shape that most clients of `/v1` parse."""
    body = openai_errors.error_body(refusal.status, refusal.error)
    await _send_json(scope, send, refusal.status, body, refusal.headers)


async def _send_json(
    scope: Scope,
    send: Send,
    status: int,
    body: bytes,
    headers: list[tuple[str, str]] | None = None,
    request_id: str | None = None,
) -> None:
    request_id = request_id or request_id_of(headers_of(scope)) or new_id()
    await send_whole(
        send, status, body, [("content-type", "application/json"), ("x-request-id", request_id), *(headers or [])]
    )


def agent_routes(
    proxy: Proxy, intake: Intake, sessions: Sessions, counter: TokenCounter, list_models: Callable[[], Awaitable[bytes]]
) -> list[CallRoute]:
    endpoints: dict[str, ASGIApp] = {path: AgentEndpoint(proxy, dialect) for path, dialect in ENDPOINTS.items()}
    for path, dialect in COUNTERS.items():
        endpoints[path] = CountTokensEndpoint(dialect, sessions, counter, intake)
    endpoints[_MODELS] = ModelsEndpoint(sessions, list_models)
    methods = {_MODELS: "GET"}
    return [
        CallRoute(prefix + path, endpoint, methods.get(path, "POST"))
        for prefix in _PREFIXES
        for path, endpoint in endpoints.items()
    ]
