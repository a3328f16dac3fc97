"""Whether calls have OpenTelemetry spans, and where these go. Nothing of it is imported where they have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from adapters.schema import Trace
from gateway.settings import Settings

# OpenTelemetry's own variables, which its exporter reads itself, its headers with their secrets among them.
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class CannotTrace(Exception):
    """Spans are to be exported, and what that takes is not installed."""


class CallSpan(Protocol):
    """The span of one call."""

    def onward(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """The agent's headers with the span's own `traceparent`: what the backend does is a child of it."""
        ...

    def end(self, trace: Trace) -> None: ...


class Spans(Protocol):
    """Makes them."""

    def begin(self, headers: Mapping[str, str]) -> CallSpan:
        """A child of the agent's own span, where its headers name one."""
        ...

    def close(self) -> None:
        """Send what is left. It blocks."""
        ...


def spans_for(settings: Settings, environ: Mapping[str, str]) -> Spans | None:
    """Raises CannotTrace."""
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none"
    if off or not (settings.otlp_endpoint or any(environ.get(name) for name in _ENDPOINTS)):
        return None
    try:
        from gateway.sight.spans import exported
    except ImportError as exc:
        raise CannotTrace("to export spans: pip install 'rollout-gateway[otel]'") from exc
    return exported(settings.otlp_endpoint)
