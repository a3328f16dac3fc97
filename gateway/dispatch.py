"""From a canonical request to a backend's status line: routing, plan, and the one second try."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from adapters.adapter import Adapter
from adapters.engines import adapter_for
from adapters.errors import read_error
from adapters.plan import Plan
from adapters.request import CanonicalRequest
from adapters.schema import Attempt, Capture, Error
from adapters.server import Server
from gateway.backend import Backend
from gateway.backends import Backends
from gateway.candidates import candidates_for, named_there, twice_if_alone
from gateway.deadline import Deadline
from gateway.refusals import BackendTimeout, BadGateway, NoBackendAvailable, Refusal
from gateway.retry_after import seconds_to_wait
from gateway.tries import Tries
from gateway.upstream import CutShort, NoAnswer, NothingSent, TimedOut, Upstream, UpstreamAnswer, UpstreamError
from gateway.weights.gate import Gate

# What of an agent's headers a backend may see. Its credential is not among them.
_PASSED_HEADERS = ("traceparent", "tracestate", "x-request-id")
_ERROR_BYTES = 1024 * 1024
_BUSY = (429, 503)


class BackendRefused(Exception):
    """The backend answered with a status that is no success; the agent gets it as it is."""

    def __init__(self, status: int, error: Error, headers: list[tuple[str, str]]) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.headers = headers


# What of a refusal's headers an agent may see: those that tell it when to come back.
_REFUSAL_HEADERS = ("retry-after", "retry-after-ms", "x-should-retry")


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A backend that has begun to answer with a success."""

    plan: Plan
    backend: Backend
    answer: UpstreamAnswer
    ended: Callable[[], None]

    async def close(self) -> None:
        self.ended()
        await self.answer.close()


@dataclass(frozen=True, slots=True)
class Order:
    """One call to be dispatched, and where to write down how that went."""

    session_id: str
    request: CanonicalRequest
    capture: Capture
    pinned: str | None
    headers: Mapping[str, str]
    attempts: list[Attempt]
    planned: Callable[[Plan, Backend], None]
    """Called with each plan before it is sent; raises to stop the call."""
    held: Callable[[float], None] = lambda seconds: None
    """Called with the seconds that the call waited at a paused backend."""
    alone: bool = False
    """No other call of this session follows."""

    @property
    def stays(self) -> str | None:
        """The session whose calls belong together at one backend."""
        return None if self.alone else self.session_id


class Dispatcher:
    """Sends calls to backends. Sent a second time only where no byte came back.

    A backend that is busy and says when to come back is asked again, where that is within a call's `busy_wait`.
    """

    def __init__(
        self,
        backends: Backends,
        upstream: Upstream,
        *,
        first_byte_timeout: float,
        connect_timeout: float = 5.0,
        busy_wait: float = 0.0,
        gate: Gate | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Seconds; `connect_timeout` is for all of a call's tries to get through to anyone."""
        self._backends = backends
        self._upstream = upstream
        self._first_byte_timeout = first_byte_timeout
        self._connect_timeout = connect_timeout
        self._busy_wait = busy_wait
        self._gate = gate or Gate()
        self._clock = clock

    async def dispatch(self, order: Order) -> Dispatched:
        """Raises Refusal or BackendRefused. The caller closes what it gets."""
        patience = self._busy_wait
        while True:
            try:
                return await self._dispatch(order)
            except BackendRefused as refused:
                wait = seconds_to_wait(refused.status, dict(refused.headers), datetime.now(UTC))
                if wait is None or wait > patience:
                    raise
            patience -= wait
            await asyncio.sleep(wait)

    async def _dispatch(self, order: Order) -> Dispatched:
        tries = Tries(patience=self._connect_timeout, clock=self._clock)
        async with aclosing(self._openings(order)) as openings:
            async for backend in openings:
                if not tries.may_try(backend):
                    break
                try:
                    return await self._ask(backend, order)
                except NothingSent as exc:
                    self._backends.refused(backend, exc.why)
                    # What a server said outweighs that another was not there.
                    tries.failed(exc, sent=False, outweighs=not isinstance(tries.failure, BackendRefused))
                except NoAnswer as exc:
                    self._backends.struck(backend, exc.why)
                    tries.failed(exc, sent=True)
                except TimedOut as exc:
                    backend.pulse.kept_waiting(exc.why)
                    tries.failed(exc, sent=True, elsewhere=True)
                except BackendRefused as exc:
                    # The prompt of a session that goes on is cached at its backend, and its agent comes again.
                    if exc.status not in _BUSY or order.pinned is not None:
                        raise
                    tries.failed(exc, sent=True, elsewhere=True)
        failure = tries.failure
        assert failure is not None
        if isinstance(failure, BackendRefused):
            raise failure
        raise _refusal(failure) from failure

    async def _openings(self, order: Order) -> AsyncGenerator[Backend, None]:
        """The backends to try, each not paused at the moment when it is given. Raises Refusal.

        The call has to be counted in its `in_flight` before anything else is awaited.
        """
        pinned = order.pinned
        left = await self._candidates(order)
        while True:
            if self._gate.closed:
                ranked = [*left]
                chosen = self._gate.choose(ranked, pinned)
                if chosen is None and ranked:
                    await self._hold(order, ranked, pinned)
                    # Meanwhile backends may have come and gone.
                    left = await self._candidates(order)
                    continue
                left = (backend for backend in ranked if backend is not chosen)
            else:
                chosen = next(left, None)
            if chosen is None:
                return
            yield chosen
            # What failed a moment ago is not waited for, though it be the session's own.
            pinned = None

    async def _candidates(self, order: Order) -> Iterator[Backend]:
        model = order.request.model
        found = await candidates_for(self._backends, order.session_id, model, order.pinned, alone=order.alone)
        return twice_if_alone(found)

    async def _hold(self, order: Order, ranked: Sequence[Backend], pinned: str | None) -> None:
        """Until it is worth while to choose again. Raises Refusal."""
        began = self._clock()
        try:
            await self._gate.hold(next((each.name for each in ranked if each.name == pinned), ranked[0].name))
        finally:
            order.held(self._clock() - began)

    async def _ask(self, backend: Backend, order: Order) -> Dispatched:
        """One try at one backend. Raises UpstreamError, Refusal or BackendRefused."""
        self._backends.began(backend, order.stays)
        ended = partial(self._backends.ended, backend, order.stays)
        try:
            plan, answer = await self._try(backend, order)
        except BaseException:
            ended()
            raise
        finally:
            self._backends.tried(backend)
        return Dispatched(plan, backend, answer, ended)

    async def _try(self, backend: Backend, order: Order) -> tuple[Plan, UpstreamAnswer]:
        started_at = datetime.now(UTC)

        def attempted(status: int | None, error: str | None = None) -> None:
            order.attempts.append(Attempt(backend.name, started_at, status, error))

        plan: Plan | None = None
        answer: UpstreamAnswer | None = None
        try:
            server = await self._backends.server(backend)
            adapter = adapter_for(server.engine)
            plan = adapter.plan(named_there(order.request, backend), server, order.capture)
            answer = await self._send(backend, adapter, plan, order)
            if answer.status == 200:
                self._backends.answered(backend)
                attempted(answer.status)
                return plan, answer
            corrected, refused = await self._refused(backend, adapter, plan, answer)
        except UpstreamError as exc:
            attempted(None, f"{exc.kind}: {exc.why}")
            if isinstance(exc, NothingSent | NoAnswer | TimedOut):
                raise
            if isinstance(exc, CutShort):  # It may have sampled, so nobody else is asked.
                self._backends.struck(backend, exc.why)
            raise BadGateway(exc.why) from exc
        except asyncio.CancelledError:
            # The agent left, or the call's time was up: a backend that has its plan was asked all the same.
            if answer is not None:
                attempted(answer.status, "abandoned: The call ended before the backend's refusal was read.")
            elif plan is not None:
                attempted(None, "abandoned: The call ended before the backend began to answer.")
            raise
        attempted(answer.status, refused.error.message)
        if corrected is None:
            if refused.status >= 500:
                self._backends.doubt(backend)
            raise refused
        backend.server = corrected
        return await self._try(backend, order)

    async def _send(self, backend: Backend, adapter: Adapter, plan: Plan, order: Order) -> UpstreamAnswer:
        order.planned(plan, backend)
        headers = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream" if plan.mode == "streamed" else "application/json"),
            *((name, order.headers[name]) for name in _PASSED_HEADERS if name in order.headers),
            *backend.headers(),
        ]
        if order.stays is not None:
            # What stands behind it may be a router. The header's own name is the agent's no more.
            headers += [(name, order.stays) for name in adapter.affinity]
        try:
            with Deadline(self._first_byte_timeout):
                return await self._upstream.send(
                    backend.name, "POST", backend.url_of(plan.path), headers=headers, body=plan.body
                )
        except TimeoutError as exc:
            why = f"The backend did not begin to answer within {self._first_byte_timeout:g} s."
            raise TimedOut(backend.name, why) from exc

    async def _refused(
        self, backend: Backend, adapter: Adapter, plan: Plan, answer: UpstreamAnswer
    ) -> tuple[Server | None, BackendRefused]:
        """What a status other than 200 means: perhaps a flag of ours, to be left out from now on; else the agent's."""
        try:
            body = await answer.body(_ERROR_BYTES)
        finally:
            await answer.close()
        error = read_error(answer.status, body)
        if answer.content_type == "text/html":
            # A page is of another program at that address, or of a proxy before the server.
            words = f"answers, but not as an inference server does: status {answer.status}, «{error.message}»"
            error = Error(f"The backend `{backend.name}` {words}", code=error.code)
        headers = [(name, answer.headers[name]) for name in _REFUSAL_HEADERS if name in answer.headers]
        status = answer.status
        if not 400 <= status <= 599:
            status, error = 502, Error(f"The backend answered with status {answer.status}: {error.message}")
        corrected = adapter.refused(plan, answer.status, body) if 400 <= answer.status < 500 else None
        return corrected if corrected != plan.server else None, BackendRefused(status, error, headers)


def _refusal(failure: Exception) -> Refusal:
    """What the agent is told of a call that nobody took."""
    assert isinstance(failure, UpstreamError)
    if isinstance(failure, TimedOut):
        return BackendTimeout(failure.why)
    if isinstance(failure, NothingSent):
        words = f"No backend could be reached. The last try was `{failure.backend}`: {failure.why}"
        return NoBackendAvailable(words)
    return BadGateway(f"The backend `{failure.backend}` gave no answer: {failure.why}")
