"""What is counted as calls go by. Everything here runs on the event loop, a few microseconds for each call in all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from adapters.schema import Attempt, Trace
from gateway.refusals import Refusal
from gateway.sight import names
from gateway.sight.tally import OTHER, Counter, Histogram

_NO_ENGINE: Final = "none"
_INVALID: Final = "invalid_request"
_MS: Final = 1e-3


class Metrics:
    """The counters and histograms of one gateway."""

    def __init__(self) -> None:
        self.calls = Counter(names.CALLS)
        self.refusals = Counter(names.REFUSALS)
        self.unrecorded = Counter(names.LOST)
        self.call_seconds = Histogram(names.CALL_SECONDS)
        self.first_token = Histogram(names.FIRST_TOKEN)
        self.between_tokens = Histogram(names.BETWEEN_TOKENS)
        self.tokens = Counter(names.TOKENS)
        self.verdicts = Counter(names.VERDICTS)
        self.logprobs = Counter(names.LOGPROBS)
        self.record_wait = Histogram(names.COMMIT_WAIT)
        self.keepalives = Counter(names.KEEPALIVES)
        self.attempts = Counter(names.ATTEMPTS)
        self.failovers = Counter(names.FAILOVERS)
        self.sessions_ended = Counter(names.SESSIONS_ENDED)
        self.claims = Counter(names.CLAIMS)
        self.loop_lag = Histogram(names.LAG)
        self._reasons = _codes(Refusal)

    def __iter__(self) -> Iterator[Counter | Histogram]:
        return (each for each in vars(self).values() if isinstance(each, Counter | Histogram))

    def ended(self, trace: Trace, *, waited: float, recorded: bool) -> None:
        """A call has its end. `waited`: seconds for its record."""
        engine, backend, status = trace.engine or _NO_ENGINE, trace.backend, trace.status
        self.calls.add((trace.dialect, engine, status))
        duration = (trace.duration_ms or 0.0) * _MS
        self.call_seconds.observe(duration, (trace.dialect,))
        self.record_wait.observe(waited)
        if not recorded:
            self.unrecorded.add()
        for attempt in trace.attempts:
            self.attempts.add((attempt.backend, _result(attempt)))
        if status == "rejected":
            self.refused(trace.error.code if trace.error is not None else None)
        if backend is None:
            return
        usage = trace.usage
        if usage is not None:
            for kind, count in (
                ("prompt", usage.prompt_tokens),
                ("cached", usage.cached_tokens),
                ("completion", usage.completion_tokens),
                ("reasoning", usage.reasoning_tokens),
            ):
                if count:
                    self.tokens.add((engine, kind), count)
        if trace.first_token_ms is not None:
            first = trace.first_token_ms * _MS
            self.first_token.observe(first, (backend,))
            if usage is not None and usage.completion_tokens is not None and usage.completion_tokens > 1:
                self.between_tokens.observe((duration - first) / (usage.completion_tokens - 1), (backend,))
        if status == "ok":
            self.verdicts.add((engine, trace.fidelity))
            self.logprobs.add((engine, trace.logprobs_fidelity))
            if len(trace.attempts) > 1:
                self.failovers.add()

    def refused(self, code: str | int | None) -> None:
        """Another code than those of the gateway's own refusals is a dialect's, for what is wrong with a request."""
        own = isinstance(code, str) and code in self._reasons
        self.refusals.add((str(code) if own else _INVALID,))


def _result(attempt: Attempt) -> str:
    """`ok`, `4xx`, `5xx`, or why there was no answer: the word that the dispatcher begins an attempt's error with."""
    if attempt.status is not None:
        return "ok" if attempt.status == 200 else f"{attempt.status // 100}xx"
    return (attempt.error or OTHER).partition(":")[0]


def _codes(kind: type[Refusal]) -> frozenset[str]:
    own = {kind.code} if kind.code is not None else set()
    return frozenset(own.union(*(_codes(each) for each in kind.__subclasses__())))
