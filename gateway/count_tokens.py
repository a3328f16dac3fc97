"""An endpoint that counts a prompt's tokens: answered, and not recorded."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import Receive, Scope, Send

from gateway.asgi import ClientGone, headers_of, send_whole
from gateway.dialects.dialect import CountingDialect
from gateway.earlier import parsed
from gateway.intake import Intake
from gateway.proxy import request_id_of
from gateway.refusals import MethodNotAllowed, Refusal
from gateway.sessions import Sessions
from gateway.token_counter import TokenCounter
from storage.ids import new_id


class CountTokensEndpoint:
    """One dialect's. Every answer has the caller's request id or a new one."""

    def __init__(self, dialect: CountingDialect, sessions: Sessions, counter: TokenCounter, intake: Intake) -> None:
        self._dialect = dialect
        self._sessions = sessions
        self._counter = counter
        self._intake = intake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = request_id_of(headers_of(scope)) or new_id()
        headers = [("content-type", "application/json"), ("x-request-id", request_id), ("request-id", request_id)]
        try:
            body, more = await self._count(scope, receive)
            await send_whole(send, 200, body, [*headers, *more])
        except Refusal as refusal:
            body = self._dialect.error_body(refusal.status, refusal.error, request_id)
            await send_whole(send, refusal.status, body, [*headers, *refusal.headers])
        except ClientGone:
            return

    async def _count(self, scope: Scope, receive: Receive) -> tuple[bytes, Sequence[tuple[str, str]]]:
        """The body, and how the tokens were counted. Raises Refusal or ClientGone."""
        if scope["method"] != "POST":
            raise MethodNotAllowed(f"{scope['path']} takes POST, not {scope['method']}.")
        headers = headers_of(scope)
        resolved = await self._sessions.resolve(headers, scope["path_params"].get("session_id"), new_id())
        body = await self._intake.read(receive, headers)
        try:
            request = await parsed(self._dialect.read_count, body)
            count = await self._counter.count(request, resolved.session)
        finally:
            self._intake.release(len(body))
        return self._dialect.count_body(count.tokens), [("x-counted-by", count.by)]
