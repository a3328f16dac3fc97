"""`x-request-id` on the answers of pages that know nothing of it: health, documentation, and what there is not.

The endpoints of agents and `/api` give their own, so that nothing is wrapped around a call.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.asgi import headers_of
from gateway.proxy import request_id_of
from storage.ids import new_id

_NAME = b"x-request-id"


class WithRequestId:
    """The application, with the caller's own request id on its answers or a new one, where they have none yet."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                if all(name.lower() != _NAME for name, _ in headers):
                    request_id = request_id_of(headers_of(scope)) or new_id()
                    message = {**message, "headers": [*headers, (_NAME, request_id.encode("latin-1"))]}
            await send(message)

        await self._app(scope, receive, named)
