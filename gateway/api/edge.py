"""The outermost layer of `/api`: a request id on every answer, the guard, a bounded body, and every error's shape."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.api.auditing import Auditor
from gateway.api.auth import Guard
from gateway.api.encoding import encode
from gateway.api.problem import MEDIA_TYPE, Problem, UnsupportedMediaType, defect, headers_for, problem_of
from gateway.api.scoped import CALLER
from gateway.asgi import BodyTooLarge, ClientGone, headers_of, read_body, send_whole
from gateway.proxy import request_id_of
from gateway.refusals import Late, NotFound, TooLarge
from gateway.sight.context import CALL, Ids
from storage.ids import new_id

logger = logging.getLogger(__name__)

ADMINISTRATION_ELSEWHERE: Final = "rollout_gateway.administration_elsewhere"
"""In the ASGI scope of what came to the agents' listener, where administration has one of its own."""
MAX_BODY_BYTES = 4 * 1024 * 1024
_BODY_SECONDS = 30.0


class Edge:
    """Middleware around the FastAPI application. Nothing of a request is read before the guard has let it in."""

    def __init__(self, app: ASGIApp, guard: Guard, auditor: Auditor) -> None:
        self._app = app
        self._guard = guard
        self._auditor = auditor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = headers_of(scope)
        request_id = request_id_of(headers) or new_id()
        CALL.set(Ids(request_id))
        answer = _Answer(send, request_id)
        try:
            _check_listener(scope)
            scope[CALLER] = await self._guard.caller(scope, headers)
            answer.before = partial(self._auditor.note, scope, request_id=request_id)
            body = await _body(receive, headers)
            await self._app(scope, _Replay(body, receive), answer)
        except ClientGone:
            return
        except Exception as exc:
            problem = problem_of(exc, request_id)
            call = f"{scope['method']} {scope['path']}, request {request_id}"
            if problem is None:
                logger.exception("%s failed", call)
            elif problem.status >= 500:
                logger.error("%s: %d, %s", call, problem.status, problem.detail)
            if answer.started:
                # Half an answer must not look like a whole one: the server cuts the connection.
                raise
            await _send_problem(answer, problem or defect(request_id), headers_for(exc))


class _Answer:
    """`send`, with the headers that every answer has."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._headers = [
            (b"x-request-id", request_id.encode("latin-1")),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        self.started = False
        self.before: Callable[[int], Awaitable[None]] | None = None
        """What is done before it begins, once its status is known."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self.before is not None:
                await self.before(message["status"])
            self.started = True
            message = {**message, "headers": [*message.get("headers", ()), *self._headers]}
        await self._send(message)


class _Replay:
    """`receive`, with a body that was read already."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def _check_listener(scope: Scope) -> None:
    """Raises NotFound."""
    if scope.get(ADMINISTRATION_ELSEWHERE, False) and f"{scope['path']}/".startswith("/api/admin/"):
        raise NotFound(f"There is nothing at {scope['path']}: this gateway is administered at a listener of its own.")


async def _body(receive: Receive, headers: Mapping[str, str]) -> bytes:
    try:
        body = await read_body(receive, headers, MAX_BODY_BYTES, seconds=_BODY_SECONDS)
    except TimeoutError as exc:
        raise Late("The request body took too long to arrive.") from exc
    except BodyTooLarge as exc:
        raise TooLarge(f"The request body is larger than {exc.limit} bytes.") from exc
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    # A web page can send other types to any address without being asked; JSON it can't.
    if body and content_type != "application/json":
        sent = f"not `{content_type}`" if content_type else "which this request lacks"
        raise UnsupportedMediaType(f"Send the body as `content-type: application/json`, {sent}.")
    return body


async def _send_problem(send: Send, problem: Problem, headers: list[tuple[str, str]]) -> None:
    await send_whole(send, problem.status, encode(problem), [("content-type", MEDIA_TYPE), *headers])
