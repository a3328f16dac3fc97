"""A call's way to a backend and back, and the trace that is committed before the agent has its end.

Of a whole answer everything is held for the commit, the status line included; of a stream everything from the first
chunk that ends its last open choice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from adapters.answer import AnswerReader, Outcome
from adapters.overflow import overflow_of
from adapters.plan import Plan
from adapters.prompts import ToldPrompt, ToldPrompts
from adapters.request import CanonicalRequest
from adapters.schema import Capture, Completion, Error, Trace
from gateway.agent_answer import AgentAnswer
from gateway.backend import Backend
from gateway.call import Call
from gateway.deadline import Deadline
from gateway.dialects.dialect import Responder
from gateway.dispatch import BackendRefused, Dispatched, Dispatcher, Order
from gateway.ending import Ending
from gateway.habits.habits import Habits
from gateway.habits.spent import last_answer
from gateway.patience import Patience
from gateway.refusals import BackendTimeout, BadGateway, BudgetSpent, NotRecordable, Refusal, Stopping
from gateway.retokenizer import Retokenizer
from gateway.sessions import Sessions
from gateway.sight.sight import Sight
from gateway.upstream import AnswerTooLarge, Compressed, CutShort, TimedOut, UpstreamAnswer
from storage.errors import CannotRecord, NotCommitted
from storage.store import Store

logger = logging.getLogger(__name__)

# Larger answers are read in a thread, so that other streams don't wait (100,000 ids take some 15 ms).
LARGE_BODY = 512 * 1024
# What may still come after a stream's `[DONE]`: the end of its chunked body, so that the connection can be used again.
_LINGER_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class ExchangeSettings:
    """Times in seconds, sizes in bytes."""

    capture: Capture
    commit_timeout: float
    idle_timeout: float
    total_timeout: float
    max_answer_bytes: int


@dataclass(slots=True)
class Counters:
    """Calls whose agent got an end, and those of them whose trace was committed before it. The two are to be equal."""

    answered: int = 0
    recorded: int = 0
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class ExchangeParts:
    """What every exchange of a gateway shares."""

    sessions: Sessions
    store: Store
    dispatcher: Dispatcher
    retokenizer: Retokenizer
    habits: Habits
    patience: Patience
    settings: ExchangeSettings
    counters: Counters
    sight: Sight = field(default_factory=Sight)
    prompts: ToldPrompts = field(default_factory=ToldPrompts)
    told: Callable[[Backend, Completion], None] = lambda backend, completion: None
    """Called with what each answer told: engines may say there that their weights are other ones now."""


class Exchange:
    """One call, once it has a session. Every way out records it first."""

    def __init__(self, parts: ExchangeParts, call: Call, answer: AgentAnswer) -> None:
        self._parts = parts
        self._settings = parts.settings
        self._call = call
        self._answer = answer
        self._reader: AnswerReader | None = None

    async def run(self, request: CanonicalRequest) -> None:
        """Ask a backend and give its answer to the agent. Cancelled, it raises, and the caller ends the call."""
        responder = self._call.responder
        assert responder is not None
        try:
            with Deadline(self._settings.total_timeout):
                ending = await self._ask(request, responder)
        except TimeoutError:
            refusal = BackendTimeout(f"The call took longer than {self._settings.total_timeout:g} s.")
            ending = Ending.refused(refusal, self._so_far(), asked=bool(self._call.attempts))
        await self._conclude(ending)

    async def refuse(self, refusal: Refusal) -> None:
        """End a call with an error of the gateway's own."""
        asked = bool(self._call.attempts)
        await self._conclude(Ending.refused(refusal, None, asked=asked))

    async def out_of_budget(self, spent: BudgetSpent) -> None:
        """End a call that its session has nothing left for, so that its agent ends too."""
        request, responder = self._call.request, self._call.responder
        if request is None or responder is None or not spent.gently:
            await self.refuse(spent)
            return
        answer = self._whole(last_answer(request, spent.error.message, self._call.trace_id), responder)
        await self._conclude(replace(answer, status="rejected", error=spent.error, outcome=None, answers=True))

    async def agent_gone(self) -> None:
        """Record a call whose agent left, with the tokens so far."""
        self._call.settled = True
        await self._record(self._call.ended("client_disconnected", http_status=None, outcome=self._so_far()))

    async def stopped(self) -> None:
        """End a call that the gateway itself has no more time for, with the tokens so far."""
        refusal = Stopping("The gateway is stopping; try again.")
        ending = Ending("interrupted", refusal.status, refusal.error, self._so_far(), headers=refusal.headers)
        await self._conclude(ending)

    async def _ask(self, request: CanonicalRequest, responder: Responder) -> Ending:
        call = self._call
        order = Order(
            session_id=call.session.session_id,
            request=request,
            capture=call.session.capture or self._settings.capture,
            pinned=call.session.backend,
            headers=call.headers if call.span is None else call.span.onward(call.headers),
            attempts=call.attempts,
            planned=self._planned,
            held=call.was_held,
            alone=call.session.implicit,
        )
        try:
            dispatched = await self._parts.dispatcher.dispatch(order)
        except BackendRefused as refused:
            status = _status_of(refused.error, refused.status)
            return Ending("backend_error", status, refused.error, headers=refused.headers)
        except Refusal as refusal:
            return Ending.refused(refusal, None, asked=bool(call.attempts))
        try:
            ending = await self._relay(dispatched, responder)
            if ending.outcome is not None:
                call.weights_at_end(dispatched.backend.weight_version)
                self._parts.told(dispatched.backend, ending.outcome.completion)
            return ending
        except (AnswerTooLarge, Compressed, CutShort) as exc:
            return Ending.refused(BadGateway(exc.why), self._so_far(), asked=True)
        except TimedOut as exc:
            return Ending.refused(BackendTimeout(exc.why), self._so_far(), asked=True)
        finally:
            await dispatched.close()  # It never waits, so nothing can cancel it.

    def _planned(self, plan: Plan, backend: Backend) -> None:
        """A plan is about to be sent: the call is queued as `running` first. Raises NotRecordable."""
        call = self._call
        call.plan = plan
        call.backend = backend.name
        call.weight_version = backend.weight_version
        pinned = call.session.backend == backend.name or call.session.implicit
        if call.new_session and not call.begun:
            call.session = replace(call.session, backend=backend.name)
            self._begin()
        else:
            self._begin()
            if not pinned:
                call.session = self._parts.sessions.pin(call.session, backend.name)

    def _begin(self) -> None:
        """Queue the call as `running`, its session with it where that is new. Raises NotRecordable."""
        call = self._call
        if call.begun:
            return
        try:
            self._parts.store.begin(call.running(), call.session if call.new_session else None)
        except CannotRecord as exc:
            raise NotRecordable(f"The gateway cannot record calls now ({exc}); try again.") from exc
        call.begun = True
        if call.new_session:
            self._parts.sessions.began(call.session)

    async def _relay(self, dispatched: Dispatched, responder: Responder) -> Ending:
        """Read the answer to its end; of a stream, pass on what need not wait. Raises UpstreamError."""
        prompt = self._parts.prompts.of(self._call.session.session_id)
        reader = AnswerReader(
            dispatched.plan, typed=responder.reads_deltas, relays=responder.reads_bytes, prompt_ids=prompt
        )
        if not dispatched.answer.is_event_stream:
            body = await self._body(dispatched.answer)
            outcome = await asyncio.to_thread(reader.whole, body) if len(body) > LARGE_BODY else reader.whole(body)
            self._remember(prompt)
            return self._whole(await self._retokenized(reader, outcome, dispatched), responder)
        self._reader = reader
        passes = responder if dispatched.plan.mode == "streamed" else None
        held, error = await self._stream(dispatched.answer, reader, passes)
        outcome = await self._retokenized(reader, reader.finish(), dispatched)
        self._remember(prompt)
        if error is None:
            error = outcome.completion.error
        if error is None and not outcome.finished:
            error = Error("The backend's answer broke off before its end.", code="backend_error")
        if error is not None:
            return Ending("backend_error", _status_of(error), error, outcome)
        if passes is None:
            return self._whole(outcome, responder)
        return Ending("ok", 200, None, outcome, held + passes.finish(outcome))

    def _remember(self, prompt: ToldPrompt) -> None:
        """For the session's next call. One that named no session has none."""
        if not self._call.session.implicit:
            self._parts.prompts.keep(self._call.session.session_id, prompt)

    def _whole(self, outcome: Outcome, responder: Responder) -> Ending:
        """The ending of an answer that came whole, streamed to an agent that asked for a stream."""
        error = outcome.completion.error
        if error is None and not outcome.finished:
            error = Error("The backend's answer is not an answer of this API.", code="backend_error")
        if error is not None:
            return Ending("backend_error", _status_of(error), error, outcome)
        assert self._call.request is not None
        streams = self._call.request.stream
        return Ending("ok", 200, None, outcome, responder.streamed(outcome) if streams else responder.whole(outcome))

    async def _retokenized(self, reader: AnswerReader, outcome: Outcome, dispatched: Dispatched) -> Outcome:
        """With ids and counts made from its text, where its backend has a tokenizer configured and told no ids."""
        tokenizer = dispatched.backend.settings.tokenizer
        if tokenizer is None or not outcome.finished:
            return outcome
        told = outcome.completion
        made = await self._parts.retokenizer.completion(tokenizer, dispatched.plan.request, told)
        return outcome if made is told else reader.retold(outcome, made)

    async def _body(self, upstream: UpstreamAnswer) -> bytes:
        """A whole body. It may come as late as it likes within the call's whole time: it is one long first byte."""
        return await upstream.body(self._settings.max_answer_bytes)

    async def _stream(
        self, upstream: UpstreamAnswer, reader: AnswerReader, responder: Responder | None
    ) -> tuple[bytes, Error | None]:
        """Pass a stream on; what is held for the commit comes back, or the error that the backend ended it with."""
        held: list[bytes] = []
        silence = self._settings.idle_timeout
        try:
            with Deadline(silence) as idle:
                async for data in upstream.chunks(self._settings.max_answer_bytes):
                    # A slow agent is not a silent backend.
                    idle.move(None)
                    passed: list[bytes] = []
                    for piece in reader.feed(data):
                        if piece.error is not None:
                            return b"", piece.error
                        if piece.tokens:
                            self._call.token_arrived()
                        if responder is not None and (out := responder.piece(piece)):
                            (held if held or piece.ends else passed).append(out)
                    if passed:
                        await self._answer.write(b"".join(passed))
                    idle.move(_LINGER_SECONDS if reader.done else silence)
        except CutShort:
            if not reader.done:
                raise
        except TimeoutError as exc:
            if not idle.expired:
                raise
            if not reader.done:
                raise TimedOut("", f"The backend sent nothing for {silence:g} s.") from exc
        return b"".join(held), None

    def _so_far(self) -> Outcome | None:
        """What a stream that was cut had brought."""
        return self._reader.finish(cut=True) if self._reader is not None else None

    async def _conclude(self, ending: Ending) -> None:
        """Record the call, then give its agent the end."""
        call, answer = self._call, self._answer
        call.settled = True
        trace = call.ended(ending.status, http_status=ending.http_status, error=ending.error, outcome=ending.outcome)
        status, error, headers = ending.http_status, ending.agents_error, list(ending.headers)
        if not await self._record(trace) and error is None:
            refusal = NotRecordable("The answer could not be recorded, so it is not given; try again.")
            status, error, headers = refusal.status, refusal.error, refusal.headers
        self._parts.counters.answered += error is None and ending.status == "ok"
        if error is not None and answer.started and call.responder is not None:
            await answer.end(call.responder.error_event(error))
        elif error is not None:
            await answer.whole(status, call.dialect.error_body(status, error, call.request_id), headers)
        elif call.request is not None and call.request.stream:
            await answer.end(ending.body)
        else:
            await answer.whole(status, ending.body)

    async def _record(self, trace: Trace) -> bool:
        """Commit the trace. False, and logged, where that could not be done."""
        recorded, asked_at = False, time.monotonic()
        try:
            self._begin()
            await self._parts.store.finish(trace, timeout=self._settings.commit_timeout)
        except (CannotRecord, NotCommitted, NotRecordable) as exc:
            logger.error("trace %s was not recorded: %s", trace.trace_id, exc)
            return False
        else:
            recorded = True
        finally:
            self._parts.habits.ended(trace)
            self._parts.sight.ended(trace, waited=time.monotonic() - asked_at, recorded=recorded)
            if self._call.span is not None:
                self._call.span.end(trace)
        self._parts.counters.recorded += trace.status == "ok"
        return True


def _status_of(error: Error, status: int | None = None) -> int:
    """The status that an agent gets for a backend's error. One in a 200 has its own code, where that is a status.

    A context that is too short is its 400 whatever the backend says: agents ask again at a 5xx, and would for ever.
    """
    if status is None:
        status = error.code if isinstance(error.code, int) and 400 <= error.code <= 599 else 502
    return 400 if status >= 500 and overflow_of(error) is not None else status
