"""One agent's call from end to end: its session, its request, the backend's answer, and the trace before the end."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import get_args

from starlette.types import Receive, Scope, Send

from adapters.request import CanonicalRequest
from adapters.schema import Error, Purpose
from gateway.admission import Admission
from gateway.agent_answer import AgentAnswer
from gateway.asgi import ClientGone, disconnected, headers_of
from gateway.call import Call
from gateway.dialects.dialect import Dialect, names_earlier
from gateway.earlier import earlier_calls, parsed
from gateway.exchange import Exchange, ExchangeParts
from gateway.habits.harness import harness_of
from gateway.intake import Intake
from gateway.refusals import BudgetSpent, Defect, InvalidRequest, Refusal
from gateway.sight.context import CALL, Ids
from storage.ids import new_id

logger = logging.getLogger(__name__)

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,256}")
_PURPOSE_HEADER = "x-rollout-purpose"
_PURPOSES: Mapping[str, Purpose] = {purpose: purpose for purpose in get_args(Purpose)}


@dataclass(frozen=True, slots=True)
class ProxySettings:
    gateway_id: str
    keepalive_interval: float
    """Seconds."""
    keepalive_whole: bool = False


class Proxy:
    """Serves agents' calls in any dialect."""

    def __init__(self, parts: ExchangeParts, settings: ProxySettings, intake: Intake, admission: Admission) -> None:
        self._parts = parts
        self._settings = settings
        self._intake = intake
        self._admission = admission

    async def serve(self, dialect: Dialect, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        trace_id = new_id()
        request_id = request_id_of(headers) or trace_id
        ids = Ids(request_id, trace_id)
        CALL.set(ids)
        answer = AgentAnswer(
            send,
            # Each API's clients look for it under a name of their own.
            [("x-request-id", request_id), ("request-id", request_id), ("x-trace-id", trace_id)],
            keepalive_interval=self._settings.keepalive_interval,
        )
        self._parts.counters.in_flight += 1
        holder = self._admission.holder(headers)
        crowded = self._admission.enter(holder)
        call: Call | None = None
        try:
            call = await self._open(dialect, scope, headers, trace_id, request_id)
            ids.session_id = call.session.session_id
            answer.headers.append(("x-session-id", ids.session_id))
            if crowded is None:
                await self._serve_call(call, answer, receive)
            else:
                await self._turn_away(call, answer, crowded)
        except Refusal as refusal:
            # Of a caller that may not call at all nothing is recorded.
            self._parts.sight.refused(refusal)
            body = dialect.error_body(refusal.status, refusal.error, request_id)
            await answer.whole(refusal.status, body, refusal.headers)
        except ClientGone:
            return
        finally:
            answer.close()
            if answer.kept_alive:
                self._parts.sight.kept_alive()
            self._parts.counters.in_flight -= 1
            if crowded is None:
                self._admission.leave(holder, call.trace if call is not None else None)
            if call is not None and call.body is not None:
                self._intake.release(len(call.body))

    async def _open(
        self, dialect: Dialect, scope: Scope, headers: Mapping[str, str], trace_id: str, request_id: str
    ) -> Call:
        """The call with its session. Raises Refusal."""
        resolved = await self._parts.sessions.resolve(headers, scope["path_params"].get("session_id"), trace_id)
        told = _purpose(headers)
        return Call(
            trace_id=trace_id,
            request_id=request_id,
            gateway_id=self._settings.gateway_id,
            dialect=dialect,
            headers=headers,
            session=resolved.session,
            new_session=resolved.new,
            purpose=told or resolved.session.purpose or "train",
            purpose_told=told is not None,
            harness=harness_of(headers),
            span=self._parts.sight.begin(headers),
            not_looked_up=["session"] if resolved.provisional else [],
        )

    async def _turn_away(self, call: Call, answer: AgentAnswer, crowded: Refusal) -> None:
        """Of a session its trace says so; a call that has none would only bring more to write."""
        if call.session.implicit:
            raise crowded
        await Exchange(self._parts, call, answer).refuse(crowded)

    async def _serve_call(self, call: Call, answer: AgentAnswer, receive: Receive) -> None:
        """From the body to the recorded end."""
        exchange = Exchange(self._parts, call, answer)
        try:
            call.asked = call.request = await self._read(call, receive)
            request = call.request = await self._parts.habits.heed(call)
        except BudgetSpent as spent:
            await exchange.out_of_budget(spent)
            return
        except Refusal as refusal:
            await exchange.refuse(refusal)
            return
        except ClientGone:
            raise
        except Exception as exc:
            await self._failed(call, exchange, exc)
            return
        if request.stream or self._settings.keepalive_whole:
            answer.keep_alive(whole=not request.stream)
        task = asyncio.current_task()
        assert task is not None
        watcher = asyncio.create_task(_watch(call, task, receive), name="disconnect")
        try:
            await exchange.run(request)
        except asyncio.CancelledError:
            # Told apart by who cancelled: the watcher, because the agent left, or the server, because it stops.
            # Either way the call has its end now, and the server would take a cancelled task for a defect.
            await (exchange.agent_gone() if call.client_gone else exchange.stopped())
            task.uncancel()
        except Exception as exc:
            await self._failed(call, exchange, exc)
        finally:
            watcher.cancel()

    async def _failed(self, call: Call, exchange: Exchange, exc: Exception) -> None:
        """The edge of the task: a defect of ours must not cost the agent a proper error, nor the call its trace."""
        logger.error("trace %s: the gateway failed", call.trace_id, exc_info=exc)
        if call.settled:
            raise exc
        await exchange.refuse(Defect("The gateway failed on this call; its log has the trace id."))

    async def _read(self, call: Call, receive: Receive) -> CanonicalRequest:
        """The body, parsed once. Raises Refusal or ClientGone."""
        call.body = await self._intake.read(receive, call.headers)
        dialect = call.dialect
        if not names_earlier(dialect):
            return await parsed(dialect.read, call.body)
        earlier = await earlier_calls(dialect, call.body, call.session, self._parts.store, self._parts.patience)
        return await parsed(partial(dialect.read_after, earlier=earlier), call.body)


async def _watch(call: Call, task: asyncio.Task[None], receive: Receive) -> None:
    """Cancel the call when its agent goes away: nothing else tells a handler that does not read."""
    await disconnected(receive)
    if not call.settled:
        call.client_gone = True
        task.cancel()


def request_id_of(headers: Mapping[str, str]) -> str | None:
    """The caller's own request id, where it is one that may stand in a header."""
    request_id = headers.get("x-request-id", "")
    return request_id if _REQUEST_ID.fullmatch(request_id) else None


def _purpose(headers: Mapping[str, str]) -> Purpose | None:
    """Raises InvalidRequest."""
    asked = headers.get(_PURPOSE_HEADER)
    if asked is None:
        return None
    if asked not in _PURPOSES:
        message = f"The header {_PURPOSE_HEADER} is one of {', '.join(_PURPOSES)}, not `{asked}`."
        raise InvalidRequest(Error(message, type="invalid_request_error", param=_PURPOSE_HEADER))
    return _PURPOSES[asked]
