"""From a canonical request to a backend's status line: routing, plan, and the one second try."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from adapters.adapter import Adapter
from adapters.engines import adapter_for
from adapters.errors import read_error
from adapters.plan import Plan
from adapters.request import CanonicalRequest
from adapters.schema import Attempt, Capture, Error
from adapters.server import Server
from gateway.backends import Backend, Backends, ModelNotServed, NoBackend
from gateway.deadline import Deadline
from gateway.refusals import BackendTimeout, BadGateway, ModelNotFound, NoBackendAvailable
from gateway.retry_after import seconds_to_wait
from gateway.upstream import NoAnswer, NothingSent, TimedOut, Upstream, UpstreamAnswer, UpstreamError
from gateway.weights.gate import Gate

# What of an agent's headers a backend may see. Its credential is not among them.
_PASSED_HEADERS = ("traceparent", "tracestate", "x-request-id")
_ERROR_BYTES = 1024 * 1024
TRIES = 2
"""Of one call; the limit for connecting is shared by them."""


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

    async def close(self) -> None:
        self.backend.in_flight -= 1
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


async def candidates_for(
    backends: Backends, session_id: str, model: str | None, pinned: str | None
) -> Sequence[Backend]:
    """Backends to ask for a session's call, the best first. Raises NoBackendAvailable or ModelNotFound."""
    await backends.know_all()
    try:
        return backends.candidates(session_id, model, pinned)
    except NoBackend:
        raise NoBackendAvailable() from None
    except ModelNotServed:
        # A model may have been loaded since the backends were last asked.
        await backends.ask_models_again()
    try:
        return backends.candidates(session_id, model, pinned)
    except ModelNotServed as exc:
        raise ModelNotFound(str(exc), param="model") from None


class Dispatcher:
    """Sends calls to backends. A second try only where nothing was sent, or no byte came back.

    A backend that is busy and says when to come back is asked again, where that is within a call's `busy_wait`.
    """

    def __init__(
        self,
        backends: Backends,
        upstream: Upstream,
        *,
        first_byte_timeout: float,
        busy_wait: float = 0.0,
        gate: Gate | None = None,
    ) -> None:
        """Times in seconds."""
        self._gate = gate or Gate()
        self._backends = backends
        self._upstream = upstream
        self._first_byte_timeout = first_byte_timeout
        self._busy_wait = busy_wait

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
        candidates = await candidates_for(self._backends, order.session_id, order.request.model, order.pinned)
        failure: UpstreamError | None = None
        for attempt in range(TRIES):
            backend = candidates[min(attempt, len(candidates) - 1)]
            if self._gate.closed:
                backend = await self._open(order, candidates, attempt)
            try:
                return await self._ask(backend, order)
            except (NothingSent, NoAnswer) as exc:
                self._backends.failed(backend, exc.why)
                failure = exc
        assert failure is not None
        if isinstance(failure, NothingSent):
            words = f"No backend could be reached. The last try was `{failure.backend}`: {failure.why}"
            raise NoBackendAvailable(words) from failure
        raise BadGateway(f"The backend `{failure.backend}` gave no answer: {failure.why}") from failure

    async def _open(self, order: Order, candidates: Sequence[Backend], attempt: int) -> Backend:
        """The best backend that is not paused, at once or when a pause is over. Raises Refusal.

        The call has to be counted in its `in_flight` before anything else is awaited.
        """
        while True:
            left = candidates[min(attempt, len(candidates) - 1) :]
            # What failed a moment ago is not waited for, though it be the session's own.
            pinned = order.pinned if attempt == 0 else None
            backend = self._gate.choose(left, pinned)
            if backend is not None:
                return backend
            began = time.monotonic()
            try:
                await self._gate.hold(next((each.name for each in left if each.name == pinned), left[0].name))
            finally:
                order.held(time.monotonic() - began)
            # Meanwhile backends may have come and gone.
            candidates = await candidates_for(self._backends, order.session_id, order.request.model, order.pinned)

    async def _ask(self, backend: Backend, order: Order) -> Dispatched:
        """One try at one backend. Raises NothingSent or NoAnswer where another try may be made."""
        backend.in_flight += 1
        try:
            return await self._try(backend, order)
        except BaseException:
            backend.in_flight -= 1
            raise

    async def _try(self, backend: Backend, order: Order) -> Dispatched:
        started_at = datetime.now(UTC)

        def attempted(status: int | None, error: str | None = None) -> None:
            order.attempts.append(Attempt(backend.name, started_at, status, error))

        plan: Plan | None = None
        answer: UpstreamAnswer | None = None
        try:
            server = await self._backends.server(backend)
            adapter = adapter_for(server.engine)
            plan = adapter.plan(order.request, server, order.capture)
            answer = await self._send(backend, plan, order)
            if answer.status == 200:
                backend.answered()
                attempted(answer.status)
                return Dispatched(plan, backend, answer)
            corrected, refused = await self._refused(backend, adapter, plan, answer)
        except UpstreamError as exc:
            attempted(None, f"{exc.kind}: {exc.why}")
            if isinstance(exc, TimedOut):
                raise BackendTimeout(exc.why) from exc
            if isinstance(exc, NothingSent | NoAnswer):
                raise
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

    async def _send(self, backend: Backend, plan: Plan, order: Order) -> UpstreamAnswer:
        order.planned(plan, backend)
        headers = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream" if plan.mode == "streamed" else "application/json"),
            *((name, order.headers[name]) for name in _PASSED_HEADERS if name in order.headers),
            *backend.headers(),
        ]
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
