"""Spans of calls, by the conventions of `conventions.py`. Made by OpenTelemetry's SDK, sent by a thread of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from adapters.schema import Trace
from gateway.sight import conventions as names
from gateway.version import gateway_version

_PROPAGATOR: Final = TraceContextTextMapPropagator()


def exported(endpoint: str | None) -> SpanMaker:
    """To an OTLP receiver over HTTP; null: as OpenTelemetry's own variables say."""
    # `create` puts OTEL_RESOURCE_ATTRIBUTES beside these, and OTEL_SERVICE_NAME above them.
    provider = TracerProvider(
        resource=Resource.create({SERVICE_NAME: "rollout-gateway", SERVICE_VERSION: gateway_version()})
    )
    exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces") if endpoint else OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return SpanMaker(provider)


class SpanMaker:
    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("rollout-gateway", gateway_version(), schema_url=names.SCHEMA_URL)

    def begin(self, headers: Mapping[str, str]) -> OneSpan:
        parent = _PROPAGATOR.extract(headers)
        return OneSpan(self._tracer.start_span(names.CHAT, context=parent, kind=SpanKind.CLIENT))

    def close(self) -> None:
        self._provider.shutdown()


class OneSpan:
    def __init__(self, span: Span) -> None:
        self._span = span

    def onward(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        told = dict(headers)
        _PROPAGATOR.inject(told, set_span_in_context(self._span))
        return told

    def end(self, trace: Trace) -> None:
        span = self._span
        if span.is_recording():
            operation = names.OPERATIONS.get(trace.dialect, names.CHAT)
            span.update_name(f"{operation} {trace.model}" if trace.model else operation)
            span.set_attributes({name: value for name, value in _facts(trace, operation).items() if value is not None})
            for attempt in trace.attempts:
                told: dict[str, AttributeValue] = {names.BACKEND: attempt.backend}
                if attempt.status is not None:
                    told[names.HTTP_STATUS] = attempt.status
                span.add_event(names.ATTEMPT, told, timestamp=int(attempt.started_at.timestamp() * 1e9))
            if trace.status != "ok":
                # A status may have words; an engine's quote what it was sent.
                span.set_status(StatusCode.ERROR)
        span.end()


def _facts(trace: Trace, operation: str) -> dict[str, AttributeValue | None]:
    """Numbers, names and ids; nothing that was said."""
    usage, error, asked = trace.usage, trace.error, trace.sampling.effective
    return {
        names.OPERATION_NAME: operation,
        names.PROVIDER_NAME: trace.engine or "unknown",
        names.CONVERSATION_ID: trace.session_id,
        names.REQUEST_MODEL: trace.model,
        names.REQUEST_MAX_TOKENS: _number(asked.get("max_tokens") or asked.get("max_completion_tokens")),
        names.REQUEST_TEMPERATURE: _number(asked.get("temperature")),
        names.REQUEST_TOP_P: _number(asked.get("top_p")),
        names.RESPONSE_MODEL: trace.served_model,
        names.RESPONSE_FINISH_REASONS: [choice.finish_reason for choice in trace.choices if choice.finish_reason]
        or None,
        names.RESPONSE_FIRST_CHUNK: trace.first_token_ms / 1e3 if trace.first_token_ms is not None else None,
        names.USAGE_INPUT_TOKENS: usage.prompt_tokens if usage is not None else None,
        names.USAGE_OUTPUT_TOKENS: usage.completion_tokens if usage is not None else None,
        names.USAGE_CACHE_READ: usage.cached_tokens if usage is not None else None,
        names.USAGE_REASONING: usage.reasoning_tokens if usage is not None else None,
        names.ERROR_TYPE: None if trace.status == "ok" else str(error.code if error and error.code else trace.status),
        names.HTTP_STATUS: trace.http_status,
        names.TRACE_ID: trace.trace_id,
        names.SESSION_ID: trace.session_id,
        names.REQUEST_ID: trace.request_id,
        names.DIALECT: trace.dialect,
        names.STATUS: trace.status,
        names.PLAN: trace.plan,
        names.PURPOSE: trace.purpose,
        names.BACKEND: trace.backend,
        names.WEIGHT_VERSION: trace.weight_version,
        names.FIDELITY: trace.fidelity,
        names.LOGPROBS_FIDELITY: trace.logprobs_fidelity,
    }


def _number(value: object) -> float | int | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
