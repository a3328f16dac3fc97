"""One model call while it runs: its facts as they become known, and the trace that they make."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from adapters.answer import Outcome
from adapters.plan import Plan
from adapters.request import CanonicalRequest
from adapters.schema import Attempt, Choice, Error, Purpose, RecordedRequest, Sampling, Session, Status, Trace
from adapters.token_ids import TokenIds
from adapters.weights import UNNAMED, named
from gateway.dialects.dialect import Dialect, Responder
from gateway.habits.sampling import sampling_of
from gateway.sight.tracing import CallSpan

MIXED: Final = "mixed"
"""The `weight_version` of an answer that two or more versions sampled; its choices' spans say which."""

# What of an agent's headers is kept: never a credential, never a cookie.
RECORDED_HEADERS = (
    "content-type",
    "idempotency-key",
    "traceparent",
    "user-agent",
    "x-request-id",
    "x-session-id",
    "x-stainless-lang",
    "x-stainless-package-version",
    "x-stainless-retry-count",
)


@dataclass(slots=True)
class Call:
    """Mutable, and owned by the one task that serves the call."""

    trace_id: str
    request_id: str
    gateway_id: str
    dialect: Dialect
    headers: Mapping[str, str]
    session: Session
    new_session: bool
    """The session's row is not in the database yet."""
    purpose: Purpose
    purpose_told: bool = False
    """The call itself says its purpose."""
    harness: dict[str, str] = field(default_factory=dict)
    aux_rule: str | None = None
    """By which rule it is `aux`."""
    retry_of: str | None = None
    not_looked_up: list[str] = field(default_factory=list)
    """What the database was to tell and could not, so that the call went on without: its `session`, its `budget`."""
    body: bytes | None = None
    asked: CanonicalRequest | None = None
    """The request as the agent sent it."""
    request: CanonicalRequest | None = None
    """What is made of it: with what the session pins."""
    plan: Plan | None = None
    backend: str | None = None
    weight_version: str | None = None
    """The backend's when the call was dispatched. What the engine says of the answer itself wins over it."""
    later_weights: str | None = None
    """Those that its backend was said to have when the answer ended, where they are others."""
    held_s: float = 0.0
    """How long it waited for a paused backend."""
    attempts: list[Attempt] = field(default_factory=list)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started: float = field(default_factory=time.monotonic)
    first_token_ms: float | None = None
    begun: bool = False
    """Whether the database has been told of the call."""
    settled: bool = False
    """Its end is known and being recorded; an agent that goes away now changes nothing."""
    client_gone: bool = False
    trace: Trace | None = None
    """What the call has become, once that is known."""
    span: CallSpan | None = None
    _recorded: RecordedRequest | None = None
    _responder: Responder | None = None
    _sampling: tuple[Plan | None, Sampling] | None = None
    """As the last plan has it: the running trace and the ended one say the same."""

    @property
    def responder(self) -> Responder | None:
        """Who answers it, once its request is known: the same from its first byte to its last."""
        if self._responder is None and self.request is not None:
            self._responder = self.dialect.responder(self.request, self.trace_id)
        return self._responder

    def token_arrived(self) -> None:
        if self.first_token_ms is None:
            self.first_token_ms = self.elapsed_ms()

    def elapsed_ms(self) -> float:
        return (time.monotonic() - self.started) * 1000.0

    def was_held(self, seconds: float) -> None:
        self.held_s += seconds

    def weights_at_end(self, version: str | None) -> None:
        self.later_weights = version if version != self.weight_version else None

    def running(self) -> Trace:
        """The trace as it stands before the backend is called."""
        return Trace(status="running", **self._facts())

    def ended(
        self, status: Status, *, http_status: int | None, error: Error | None = None, outcome: Outcome | None = None
    ) -> Trace:
        """The trace as it stays."""
        facts = self._facts()
        if outcome is None:
            facts["fidelity_reason"] = "no answer was received"
        else:
            facts |= self._told(outcome)
        self.trace = Trace(
            status=status,
            http_status=http_status,
            error=error,
            attempts=tuple(self.attempts),
            first_token_ms=self.first_token_ms,
            duration_ms=self.elapsed_ms(),
            **facts,
        )
        return self.trace

    def _facts(self) -> dict[str, Any]:
        """What is known of the call itself, as arguments of a `Trace`."""
        request, plan = self.request, self.plan
        return {
            "trace_id": self.trace_id,
            "session_id": self.session.session_id,
            "attempt": self.session.attempt,
            "dialect": self.dialect.name,
            "started_at": self.started_at,
            "request": self._recorded_request(),
            "model": request.model if request is not None else None,
            "purpose": self.purpose,
            "retry_of": self.retry_of,
            "harness": self.harness,
            "metadata": self._metadata(),
            "backend": self.backend,
            "engine": plan.server.engine if plan is not None else None,
            "engine_version": plan.server.version if plan is not None else None,
            "plan": plan.mode if plan is not None else None,
            "weight_version": self.weight_version,
            "sampling": self._sampled(),
            "request_id": self.request_id,
            "gateway_id": self.gateway_id,
        }

    def _metadata(self) -> dict[str, Any]:
        told: dict[str, Any] = {}
        if self.aux_rule is not None:
            told["aux_rule"] = self.aux_rule
        if self.not_looked_up:
            told["not_looked_up"] = list(self.not_looked_up)
        if self.later_weights is not None:
            told["weight_version_at_end"] = self.later_weights
        if self.held_s:
            told["held_s"] = round(self.held_s, 3)
        return told

    def _recorded_request(self) -> RecordedRequest:
        if self._recorded is None or self._recorded.body is not self.body:
            self._recorded = RecordedRequest(self.body, recorded_headers(self.headers))
        return self._recorded

    def _sampled(self) -> Sampling:
        if self._sampling is None or self._sampling[0] is not self.plan:
            left_out = self.plan.left_out if self.plan is not None else frozenset[str]()
            self._sampling = self.plan, sampling_of(self.asked, self.request, left_out)
        return self._sampling[1]

    def _told(self, outcome: Outcome) -> dict[str, Any]:
        """What the backend's answer told, as arguments of a `Trace`."""
        completion, verdict = outcome.completion, outcome.verdict
        prompt = completion.prompt_token_ids
        choices = named(completion.choices, self.weight_version)
        version = _spanned(choices) or completion.weight_version
        if version is None or (version == UNNAMED and self.weight_version is not None):
            version = self.weight_version
        return {
            "served_model": completion.served_model,
            "weight_version": version,
            "prompt_token_ids": self._sent_prompt() if prompt is None else prompt,
            "choices": choices,
            "usage": completion.usage,
            "usage_estimated": completion.usage_estimated,
            "fidelity": verdict.fidelity,
            "fidelity_reason": verdict.fidelity_reason,
            "source": completion.source,
            "logprobs_fidelity": verdict.logprobs_fidelity,
            "logprobs_reason": verdict.logprobs_reason,
            "logprobs_mode": completion.logprobs_mode,
        }

    def _sent_prompt(self) -> TokenIds | None:
        """The prompt's ids where the agent itself sent them; of several prompts each choice has its own."""
        if self.request is None or self.request.prompts != 1 or not self.request.prompt_token_ids:
            return None
        return self.request.prompt_token_ids[0]


def _spanned(choices: Sequence[Choice]) -> str | None:
    """The one version that all spans name; `mixed` where the weights changed while the answer was sampled."""
    versions = {span.version for choice in choices for span in choice.weight_versions or ()}
    return MIXED if len(versions) > 1 else next(iter(versions), None)


def recorded_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in RECORDED_HEADERS if name in headers}
